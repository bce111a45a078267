// Shared text: a correctly rounded float32 quotient, in safe and in fast math, where `/` may miss by
// some units in the last place. Subnormal operands and results are zero; zeros keep their sign.
// Comes after arithmetic.metal.

constant uint NOT_A_NUMBER = 0x7fc00000u;

// a * 2^23 / b to the nearest integer, for 2^23 <= b < 2^24, b <= a < 2b, and a guess that is less than
// 128 off.
//
// |a * 2^23 - guess * b| < 128 * 2^24 = 2^31, so its low 32 bits are the whole difference. The loops
// keep `rest` that difference and end with 0 <= rest < b: then guess is the quotient rounded down, and
// it has 24 bits. There are no ties: rest = b / 2 means a * 2^24 = (2 * guess + 1) * b, so 2^24 would
// divide b. An `a` of 24 significant bits never rounds up to 2^24: either a <= 2b - 2, which leaves more
// than 1, or a = 2^24 - 1 and b = 2^23, where rest is 0.
static inline uint nearest_quotient(uint a, uint b, uint guess) {
    int rest = int((a << 23) - guess * b);
    while (rest < 0) {
        --guess;
        rest += int(b);
    }
    while (rest >= int(b)) {
        ++guess;
        rest -= int(b);
    }
    return guess + uint(2 * rest > int(b));
}

// Bits of the quotient of two floats given as bits: fast math makes nothing of NaN and infinity here.
static inline uint divide_bits(uint a, uint b) {
    const uint sign = (a ^ b) & 0x80000000u;
    a &= 0x7fffffffu;
    b &= 0x7fffffffu;
    if (a > INFINITE || b > INFINITE) return NOT_A_NUMBER;
    const bool a_zero = a < 0x00800000u;
    const bool b_zero = b < 0x00800000u;
    if ((a_zero && b_zero) || (a == INFINITE && b == INFINITE)) return NOT_A_NUMBER;
    if (a == INFINITE || b_zero) return sign | INFINITE;
    if (a_zero || b == INFINITE) return sign;

    int exponent = int(a >> 23) - int(b >> 23) + 127;
    uint dividend = (a & 0x007fffffu) | 0x00800000u;
    const uint divisor = (b & 0x007fffffu) | 0x00800000u;
    if (dividend < divisor) {
        dividend <<= 1;
        --exponent;
    }
    if (exponent < 1) return sign;
    if (exponent > 254) return sign | INFINITE;
    const uint guess = uint(float(dividend) / float(divisor) * 8388608.0f);
    return sign | (uint(exponent) << 23) | (nearest_quotient(dividend, divisor, guess) & 0x007fffffu);
}

static inline float exact_divide(float a, float b) {
    return as_type<float>(divide_bits(as_type<uint>(a), as_type<uint>(b)));
}
