"""Static check of Metal compute shaders, without a Mac.

Two layers: clang as "C++ for OpenCL" with a header of Metal's declarations (types, address spaces,
overloads), and rules of our own for what clang cannot see (attributes, buffer indices, what Metal
3.1 lacks, what ``torch.mps.compile_shader`` cannot do).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mps_emulator.check._clang import (
    ClangMissingError,
    find_clang,
    run_clang,
    run_second_pass,
)
from mps_emulator.check._diagnostics import Diagnostic, as_problems, read_diagnostics
from mps_emulator.check._language import LanguageRules, shared_variables, type_names
from mps_emulator.check._llvm import check_contraction, check_threadgroup_memory
from mps_emulator.check._parse import find_kernels
from mps_emulator.check._problem import Problem
from mps_emulator.check._signature import SignatureRules
from mps_emulator.check._source import Source
from mps_emulator.check._tokens import tokenize

__all__ = ["ClangMissingError", "Problem", "check_source", "find_clang"]


def check_source(
    text: str,
    name: str,
    *,
    defines: Mapping[str, str] | None = None,
    metal_version: int = 310,
    require_contract_off: bool = False,
) -> list[Problem]:
    """Check one shader as it would be handed to ``torch.mps.compile_shader``.

    Kernel templates are reported and not checked. ``#line`` directives in the text are followed,
    so a text joined from several files is reported by its files.

    Args:
        text: The source.
        name: Name of the source in the problems, such as its file name.
        defines: Macros to set before the source.
        metal_version: Language version as in ``__METAL_VERSION__``. Default: 310, the oldest that
            torch 2.7 and later compile for.
        require_contract_off: Report float arithmetic outside ``#pragma METAL fp contract(off)`` as
            an error, not a warning.

    Returns:
        The problems in order of their lines; empty when the shader is good.

    Raises:
        ClangMissingError: No clang is installed.
    """
    source = Source(name, text)
    settings = defines or {}
    compiled = run_clang(source, version=metal_version, defines=settings)
    tokens = tokenize(compiled.preprocessed, source)
    kernels = find_kernels(tokens)
    aliases, types = type_names(tokens)
    problems = [
        *source.check_text(),
        *SignatureRules(source, aliases).check(kernels),
        *LanguageRules(source, tokens, types, metal_version).check(),
    ]
    if any(kernel.is_template for kernel in kernels):
        return _in_order(problems)  # clang would only stumble over the templates

    ir = compiled.ir
    diagnostics = read_diagnostics(compiled.messages)
    copies = [found for found in diagnostics if found.is_constant_copy]
    if copies:
        diagnostics = [found for found in diagnostics if not found.is_constant_copy]
        if not any(found.is_error for found in diagnostics):
            second = run_second_pass(source, version=metal_version, defines=settings)
            ir = second.ir
            diagnostics += [f for f in read_diagnostics(second.messages) if not f.is_error]
            if not ir:
                problems.append(_half_checked(copies[0], source))
    problems += check_threadgroup_memory(ir, kernels, source)
    problems += check_contraction(ir, source, require_contract_off)
    # Where both layers see the same mistake, the linter's message says more.
    found_rules = {(problem.file, problem.line, problem.rule) for problem in problems}
    for problem in as_problems(diagnostics, source, shared_variables(tokens)):
        if (problem.file, problem.line, problem.rule) not in found_rules:
            problems.append(problem)
    return _in_order(problems)


def _half_checked(copy: Diagnostic, source: Source) -> Problem:
    place = next(as_problems([copy], source, frozenset()))
    message = (
        "copies a structure out of constant memory in a shader with overloads on device and "
        "constant: threadgroup memory and float contraction were not checked; read the members"
    )
    return replace(place, severity="warning", message=message, rule="half-checked")


def _in_order(problems: list[Problem]) -> list[Problem]:
    return sorted(set(problems), key=lambda problem: (problem.file, problem.line, problem.column))
