#include "front/order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A collective that some members have reported. */
struct pending {
    struct pending *next; /* the next younger one */
    struct order_report first;
    int first_rank;
    uint64_t since_ns, deadline_ns; /* deadline: UINT64_MAX if there is none */
    enum tutti_status status; /* not OK: it has failed, and waits for the other members only to tell them */
    char text[ORDER_TEXT_MAX];
    bool is_warned_of;
    int root; /* rank; -1: none yet */
    int count;
    int *ranks;  /* that have reported, in the order of reports; room for group_size */
    int *places; /* that they want; room for group_size */
};

struct group {
    struct group *next;
    int32_t key;
    bool has_communicator;
    int size;
    int members[]; /* by their numbers in the group */
};

struct order {
    int size;
    order_tell *tell;
    order_warn *warn;
    void *context;
    struct group *groups;
    struct pending *first, **last;
    int pending_count;
};

struct order *order_create(int size, order_tell *tell, order_warn *warn, void *context)
{
    struct order *const order = calloc(1, sizeof *order);
    if (order == NULL) return NULL;
    *order = (struct order){.size = size, .tell = tell, .warn = warn, .context = context};
    order->last = &order->first;
    return order;
}

static void free_pending(struct pending *pending)
{
    free(pending->ranks);
    free(pending->places);
    free(pending);
}

void order_free(struct order *order)
{
    if (order == NULL) return;
    while (order->first != NULL) {
        struct pending *const next = order->first->next;
        free_pending(order->first);
        order->first = next;
    }
    while (order->groups != NULL) {
        struct group *const next = order->groups->next;
        free(order->groups);
        order->groups = next;
    }
    free(order);
}

static struct group *find_group(const struct order *order, struct order_key key)
{
    struct group *group = order->groups;
    while (group != NULL &&
           (group->key != key.group || group->has_communicator != key.has_communicator))
        group = group->next;
    return group;
}

static bool is_member(const struct group *group, int rank)
{
    for (int i = 0; i < group->size; i++)
        if (group->members[i] == rank) return true;
    return false;
}

/* The link that leads to the pending collective, or the one at the end. */
static struct pending **find_pending(struct order *order, struct order_key key)
{
    struct pending **link = &order->first;
    while (*link != NULL &&
           ((*link)->first.key.group != key.group || (*link)->first.key.instance != key.instance ||
            (*link)->first.key.has_communicator != key.has_communicator))
        link = &(*link)->next;
    return link;
}

static void remove_pending(struct order *order, struct pending **link)
{
    struct pending *const pending = *link;
    *link = pending->next;
    if (order->last == &pending->next) order->last = link;
    order->pending_count--;
    free_pending(pending);
}

static void refuse(struct order *order, int rank, struct order_key key, enum tutti_status status,
                   const char *text)
{
    const struct order_answer answer = {.key = key, .status = status, .root = -1, .text = text};
    order->tell(order->context, rank, &answer);
}

/* Fails it for all that have reported it; it stays to tell the others when they do. */
static void fail_all(struct order *order, struct pending *pending, enum tutti_status status)
{
    pending->status = status;
    for (int i = 0; i < pending->count; i++)
        refuse(order, pending->ranks[i], pending->first.key, status, pending->text);
}

static int compare_ranks(const void *left, const void *right)
{
    const int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

/* Makes the group of the ranks that have reported; false: no memory. */
static bool make_group(struct order *order, const struct pending *pending)
{
    const int size = pending->count;
    struct group *const group = malloc(sizeof *group + (size_t)size * sizeof group->members[0]);
    if (group == NULL) return false;
    group->key = pending->first.key.group;
    group->has_communicator = pending->first.key.has_communicator;
    group->size = size;
    if (pending->first.has_place) {
        for (int i = 0; i < size; i++) group->members[pending->places[i]] = pending->ranks[i];
    } else {
        memcpy(group->members, pending->ranks, (size_t)size * sizeof group->members[0]);
        qsort(group->members, (size_t)size, sizeof group->members[0], compare_ranks);
    }
    group->next = order->groups;
    order->groups = group;
    return true;
}

/* All have reported. */
static void complete(struct order *order, struct pending *pending)
{
    if (pending->first.root != ORDER_NO_ROOT && pending->root < 0) {
        snprintf(pending->text, sizeof pending->text,
                 "%s of group %d, instance %d: all %d ranks receive, and none sends",
                 pending->first.what, pending->first.key.group, pending->first.key.instance,
                 pending->count);
        fail_all(order, pending, TUTTI_MISMATCH);
        return;
    }
    struct group *group = find_group(order, pending->first.key);
    if (group == NULL && !make_group(order, pending)) {
        snprintf(pending->text, sizeof pending->text, "out of memory for a group of %d ranks",
                 pending->count);
        fail_all(order, pending, TUTTI_NO_MEMORY);
        return;
    }
    group = find_group(order, pending->first.key);
    int root = -1, lowest = 0;
    for (int i = 0; i < group->size; i++) {
        if (pending->root >= 0 && group->members[i] == pending->root) root = i;
        if (group->members[i] < group->members[lowest]) lowest = i;
    }
    const struct order_answer answer = {.key = pending->first.key,
                                        .status = TUTTI_OK,
                                        .root = root,
                                        .members = group->members,
                                        .member_count = group->size};
    /* The lowest rank last: it may be this one, and then it waits for the others to make the
     * group. */
    for (int i = group->size; i-- > 0;)
        if (i != lowest) order->tell(order->context, group->members[i], &answer);
    order->tell(order->context, group->members[lowest], &answer);
}

/* Whether the report can be taken at all; the text says why not. */
static bool makes_sense(const struct order *order, const struct group *group, int rank,
                        const struct order_report *report, char *text, size_t text_size)
{
    if (report->group_size < 1 || report->group_size > order->size)
        snprintf(text, text_size,
                 "%s of group %d: a group of %d, and the job has %d ranks; a process can have one "
                 "device in a group",
                 report->what, report->key.group, report->group_size, order->size);
    else if (group != NULL && group->size != report->group_size)
        snprintf(text, text_size,
                 "%s of group %d: rank %d says that the group has %d ranks; it has %d",
                 report->what, report->key.group, rank, report->group_size, group->size);
    else if (report->has_place && (report->place < 0 || report->place >= report->group_size))
        snprintf(text, text_size, "%s of group %d: rank %d wants place %d of %d", report->what,
                 report->key.group, rank, report->place, report->group_size);
    else if (group != NULL && !is_member(group, rank))
        snprintf(text, text_size, "%s of group %d: rank %d is none of the ranks that made the group",
                 report->what, report->key.group, rank);
    else
        return true;
    return false;
}

/* Adds a collective of which this is the first report. NULL: no memory, or too many are pending. */
static struct pending *add_pending(struct order *order, int rank, const struct order_report *report,
                                   uint64_t now_ns)
{
    if (order->pending_count == ORDER_PENDING_MAX) return NULL;
    struct pending *const pending = calloc(1, sizeof *pending);
    if (pending == NULL) return NULL;
    *pending =
        (struct pending){.first = *report, .first_rank = rank, .since_ns = now_ns, .root = -1};
    pending->ranks = calloc((size_t)report->group_size, sizeof *pending->ranks);
    pending->places = calloc((size_t)report->group_size, sizeof *pending->places);
    if (pending->ranks == NULL || pending->places == NULL) {
        free_pending(pending);
        return NULL;
    }
    pending->deadline_ns = report->timeout_ns == 0 || report->timeout_ns > UINT64_MAX - now_ns
                               ? UINT64_MAX
                               : now_ns + report->timeout_ns;
    *order->last = pending;
    order->last = &pending->next;
    order->pending_count++;
    return pending;
}

/* Whether a further report fits the first; the text says why not. */
static bool fits(struct pending *pending, int rank, const struct order_report *report)
{
    const struct order_report *const first = &pending->first;
    const bool has_root = first->root != ORDER_NO_ROOT;
    for (int i = 0; i < pending->count; i++) {
        if (pending->ranks[i] == rank) {
            snprintf(pending->text, sizeof pending->text,
                     "%s of group %d, instance %d: rank %d begins it twice; a process can have one "
                     "device in a group",
                     report->what, report->key.group, report->key.instance, rank);
            return false;
        }
        if (report->has_place && pending->first.has_place && pending->places[i] == report->place) {
            snprintf(pending->text, sizeof pending->text,
                     "%s of group %d: rank %d and rank %d both want place %d", report->what,
                     report->key.group, pending->ranks[i], rank, report->place);
            return false;
        }
    }
    if (strcmp(first->what, report->what) != 0 || first->group_size != report->group_size ||
        has_root != (report->root != ORDER_NO_ROOT) || first->has_place != report->has_place) {
        snprintf(
            pending->text, sizeof pending->text,
            "group %d, instance %d: rank %d calls %s among %d ranks, rank %d calls %s among %d",
            report->key.group, report->key.instance, pending->first_rank, first->what,
            first->group_size, rank, report->what, report->group_size);
        return false;
    }
    if (report->root == ORDER_ROOT && pending->root >= 0) {
        snprintf(pending->text, sizeof pending->text,
                 "%s of group %d, instance %d: rank %d and rank %d both send", report->what,
                 report->key.group, report->key.instance, pending->root, rank);
        return false;
    }
    return true;
}

void order_take(struct order *order, int rank, const struct order_report *report, uint64_t now_ns)
{
    char text[ORDER_TEXT_MAX];
    assert(rank >= 0 && rank < order->size);
    const struct group *const group = find_group(order, report->key);
    if (!makes_sense(order, group, rank, report, text, sizeof text)) {
        refuse(order, rank, report->key, TUTTI_MISMATCH, text);
        return;
    }
    struct pending **link = find_pending(order, report->key);
    struct pending *pending = *link;
    if (pending == NULL) {
        pending = add_pending(order, rank, report, now_ns);
        if (pending == NULL) {
            refuse(order, rank, report->key, TUTTI_NO_MEMORY,
                   "out of memory for a collective that other ranks have not begun yet");
            return;
        }
        link = find_pending(order, report->key);
    } else if (pending->status == TUTTI_OK && !fits(pending, rank, report)) {
        fail_all(order, pending, TUTTI_MISMATCH);
    }
    if (pending->status != TUTTI_OK)
        refuse(order, rank, report->key, pending->status, pending->text);
    if (report->root == ORDER_ROOT) pending->root = rank;
    /* A rank that begins it twice does not count twice. */
    bool is_new = true;
    for (int i = 0; i < pending->count; i++) is_new &= pending->ranks[i] != rank;
    if (is_new) {
        pending->ranks[pending->count] = rank;
        pending->places[pending->count++] = report->place;
    }
    if (pending->count < pending->first.group_size) return;
    if (pending->status == TUTTI_OK) complete(order, pending);
    remove_pending(order, link);
}

/* "rank 1 has", or "2 of 4 ranks (0, 3) have": those that have not reported, where they are known,
 * otherwise those that have. */
static void describe_missing(const struct order *order, const struct pending *pending, char *text,
                             size_t text_size)
{
    const struct group *const group = find_group(order, pending->first.key);
    const bool is_known = group != NULL || pending->first.group_size == order->size;
    const int count = is_known ? (group != NULL ? group->size : order->size) : pending->count;
    size_t length = 0;
    int listed = 0;
    char list[160] = "";
    for (int i = 0; i < count; i++) {
        const int rank = !is_known ? pending->ranks[i] : group != NULL ? group->members[i] : i;
        bool is_there = false;
        for (int k = 0; k < pending->count; k++) is_there |= pending->ranks[k] == rank;
        if (is_known == is_there) continue;
        if (length < sizeof list - 16)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%d",
                                       listed > 0 ? ", " : "", rank);
        else if (strstr(list, "...") == NULL)
            length += (size_t)snprintf(list + length, sizeof list - length, ", ...");
        listed++;
    }
    const int missing = pending->first.group_size - pending->count;
    if (is_known)
        snprintf(text, text_size, "rank%s %s %s not begun it", missing > 1 ? "s" : "", list,
                 missing > 1 ? "have" : "has");
    else
        snprintf(text, text_size, "%d of its %d ranks have not begun it, only %s %s have", missing,
                 pending->first.group_size, listed > 1 ? "ranks" : "rank", list);
}

void order_tick(struct order *order, uint64_t now_ns)
{
    char missing[256], text[ORDER_TEXT_MAX];
    for (struct pending *pending = order->first; pending != NULL; pending = pending->next) {
        if (pending->status != TUTTI_OK) continue;
        const bool is_over = now_ns >= pending->deadline_ns;
        const uint64_t waited_ns = now_ns > pending->since_ns ? now_ns - pending->since_ns : 0;
        if (!is_over && (pending->is_warned_of || waited_ns < ORDER_LATE_NS)) continue;
        describe_missing(order, pending, missing, sizeof missing);
        if (is_over) {
            snprintf(pending->text, sizeof pending->text,
                     "%s of group %d, instance %d: %s after %.3g s, its deadline",
                     pending->first.what, pending->first.key.group, pending->first.key.instance,
                     missing, (double)waited_ns * 1e-9);
            fail_all(order, pending, TUTTI_TIMEOUT);
            continue;
        }
        pending->is_warned_of = true;
        snprintf(text, sizeof text, "%s of group %d, instance %d: %s after %.1f s",
                 pending->first.what, pending->first.key.group, pending->first.key.instance,
                 missing, (double)waited_ns * 1e-9);
        order->warn(order->context, text);
    }
}

bool order_waits(const struct order *order)
{
    for (const struct pending *pending = order->first; pending != NULL; pending = pending->next)
        if (pending->status == TUTTI_OK) return true;
    return false;
}
