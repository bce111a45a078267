// Shared text: rows that look at the same points, for kernels whose threadgroups answer several queries.

// Rows up to before `next`; their points [begin, begin + size); `shown` is the index of the first of them.
struct Run {
    uint next;
    uint size;
    long begin;
    long shown;
};

// Equal clouds have `rows_each` rows and `size_each` points, and indices count in the cloud. Else row i
// looks at the points first[i] ... up to before last[i], and indices count in the input.
static inline Run run_from(
    uint row, uint end_row, bool equal_clouds, uint rows_each, long size_each, device const long* first,
    device const long* last) {
    Run run;
    if (equal_clouds) {
        const uint cloud = row / rows_each;
        run.next = min(end_row, (cloud + 1) * rows_each);
        run.begin = long(cloud) * size_each;
        run.size = uint(size_each);
        run.shown = 0;
        return run;
    }
    const long end = last[row];
    run.begin = first[row];
    run.size = end > run.begin ? uint(end - run.begin) : 0;
    run.shown = run.begin;
    run.next = row + 1;
    while (run.next < end_row && first[run.next] == run.begin && last[run.next] == end) ++run.next;
    return run;
}
