/* Compiled as strict C99 and as C++: the header is clean in both and has the layout it promises. */
#include <assay_kernel.h>

#define CHECK(name, condition) typedef char name[(condition) ? 1 : -1]

/* DLTensor of DLPack on 64-bit machines. */
CHECK(device_is_8_bytes, sizeof(assay_device) == 8);
CHECK(dtype_is_4_bytes, sizeof(assay_dtype) == 4);
CHECK(data_is_first, offsetof(assay_view, data) == 0);
CHECK(device_follows, offsetof(assay_view, device) == 8);
CHECK(ndim_follows, offsetof(assay_view, ndim) == 16);
CHECK(dtype_follows, offsetof(assay_view, dtype) == 20);
CHECK(shape_follows, offsetof(assay_view, shape) == 24);
CHECK(strides_follow, offsetof(assay_view, strides) == 32);
CHECK(offset_is_last, offsetof(assay_view, byte_offset) == 40 && sizeof(assay_view) == 48);

/* Version 1 as it was published: an offset that moves is a new version. */
CHECK(version, ASSAY_ABI_VERSION == 1);
CHECK(call_size, sizeof(assay_call) == 120);
CHECK(precision_size, sizeof(assay_precision) == 72);
CHECK(table_size, sizeof(assay_table) == 88);

int main(void) { return 0; }
