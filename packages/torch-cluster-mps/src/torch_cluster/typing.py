"""What callers ask about this build."""

import torch

# the original's operator for `ptr` as a list, in builds that have it; here the function takes lists
WITH_PTR_LIST: bool = hasattr(torch.ops.torch_cluster, "fps_ptr_list")
