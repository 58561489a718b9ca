#include "p2p/payload.h"

static bool take_plain(struct link_rx *link, const struct link_view *view, size_t left,
                       char *destination, size_t *bytes)
{
    if (view->bytes == 0 || view->bytes > left) return false;
    if (view->data == NULL && !link->ops->take(link, destination, *bytes))
        *bytes = 0;
    else if (view->data != NULL && view->data != destination)
        memcpy(destination, view->data, *bytes);
    return true;
}

/* Nobody sends a reference to what is not encoded. */
static bool take_encoded(enum kernel_level level, const struct link_view *view, size_t left,
                         const struct p2p_request *receive, char *destination, size_t *on_link,
                         size_t *bytes)
{
    const size_t unit_bytes = receive->encoding->unit_bytes;
    *on_link = *on_link >= unit_bytes ? *on_link / unit_bytes * unit_bytes : unit_bytes;
    if (view->data == NULL || view->bytes < *on_link || view->bytes % unit_bytes != 0 ||
        !wire_to_memory(receive->encoding, dtype_size(receive->dtype), *on_link, left, bytes))
        return false;
    payload_get(level, receive->encoding, receive->dtype, view->data, *bytes, destination);
    return true;
}

bool payload_take(enum kernel_level level, struct link_rx *link, const struct link_view *view,
                  size_t budget, struct p2p_request *receive, size_t *on_link)
{
    const size_t left = receive->sent_bytes - receive->moved_bytes;
    char *const destination = (char *)receive->buffer + receive->moved_bytes;
    *on_link = view->bytes < budget ? view->bytes : budget;
    size_t bytes = 0;
    if (receive->encoding == NULL) {
        if (!take_plain(link, view, left, destination, on_link)) return false;
        bytes = *on_link;
    } else if (!take_encoded(level, view, left, receive, destination, on_link, &bytes)) {
        return false;
    }
    receive->moved_bytes += bytes;
    return true;
}
