"""MPS kernels for the operators of pyg-lib, found by PyTorch when it is imported.

PyTorch calls `_autoload` at `import torch`; nothing has to be imported by hand. Kernels come from
mps-pointops and are loaded at the first call of an operator on an `mps` tensor.

Kept small on purpose: this module is loaded by every process that imports torch.
"""

__version__ = "0.1.0"

__all__ = ["__version__", "check", "register", "registered", "unregister"]

# What went wrong at `import torch`, which must not fail; `check` tells it.
_failure: Exception | None = None


def _autoload() -> None:
    """What PyTorch calls at the end of `import torch`. Never raises, never prints."""
    global _failure
    try:
        from pyg_lib_mps_plugin import _registration

        _registration.register()
        _failure = None
    except Exception as error:
        _failure = error


def register() -> None:
    """Register the kernels by hand: what `import torch` does where it loads plug-ins.

    Needed with TORCH_DEVICE_BACKEND_AUTOLOAD=0 only. Calling it again does nothing. pyg-lib may be
    imported before or after.

    Warns:
        UserWarning: pyg-lib is not installed, so nothing will call the kernels.
    """
    global _failure
    from pyg_lib_mps_plugin import _registration, _status

    _registration.register()
    _failure = None
    if not _status.pyg_lib_is_there():
        import warnings

        warnings.warn(_status.missing_pyg_lib(), stacklevel=2)


def unregister() -> None:
    """Take the kernels back, as far as this package registered them. For tests."""
    from pyg_lib_mps_plugin import _registration

    _registration.unregister()


def registered() -> tuple[str, ...]:
    """The operators whose MPS kernel is from this package, by full name, sorted."""
    from pyg_lib_mps_plugin import _registration

    return _registration.registered()


def check() -> str:
    """What is active in this process and what is missing, as text for people.

    Also `python -m pyg_lib_mps_plugin`. Looks at installed packages and at the dispatcher; runs
    nothing on the device.
    """
    from pyg_lib_mps_plugin import _status

    return _status.report(_failure)
