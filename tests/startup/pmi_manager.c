#include "tests/startup/pmi_manager.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1024, CLIENTS_MAX = 64, PAIRS_MAX = 4096 };

struct client {
    int fd; /* -1: gone */
    bool is_waiting, has_finalized;
    size_t buffered;
    char buffer[LINE_BYTES_MAX];
};

struct manager {
    struct client clients[CLIENTS_MAX];
    int client_count, vallen_max, pair_count;
    struct {
        char key[64], value[LINE_BYTES_MAX];
    } pairs[PAIRS_MAX];
};

static bool say(const struct client *client, const char *line)
{
    return send(client->fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line);
}

static bool put(struct manager *manager, struct client *client, const char *line)
{
    if (manager->pair_count == PAIRS_MAX) return false;
    char *const key = manager->pairs[manager->pair_count].key;
    char *const value = manager->pairs[manager->pair_count].value;
    if (sscanf(line, "cmd=put kvsname=job key=%63s value=%1023s", key, value) != 2) return false;
    if (strlen(value) >= (size_t)manager->vallen_max) return false;
    for (int i = 0; i < manager->pair_count; i++)
        if (strcmp(manager->pairs[i].key, key) == 0)
            return say(client, "cmd=put_result rc=-1 msg=duplicate_key\n");
    manager->pair_count++;
    return say(client, "cmd=put_result rc=0 msg=success\n");
}

static bool get(const struct manager *manager, const struct client *client, const char *line)
{
    char key[64], answer[LINE_BYTES_MAX + 64];
    if (sscanf(line, "cmd=get kvsname=job key=%63s", key) != 1) return false;
    snprintf(answer, sizeof answer, "cmd=get_result rc=-1 msg=no_such_key\n");
    for (int i = 0; i < manager->pair_count; i++)
        if (strcmp(manager->pairs[i].key, key) == 0)
            snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=%s\n",
                     manager->pairs[i].value);
    return say(client, answer);
}

static bool barrier(struct manager *manager, struct client *client)
{
    client->is_waiting = true;
    for (int i = 0; i < manager->client_count; i++)
        if (!manager->clients[i].is_waiting) return true;
    bool fine = true;
    for (int i = 0; i < manager->client_count; i++) {
        manager->clients[i].is_waiting = false;
        fine &= say(&manager->clients[i], "cmd=barrier_out\n");
    }
    return fine;
}

static bool answer(struct manager *manager, struct client *client, const char *line)
{
    char text[128];
    if (strcmp(line, "cmd=init pmi_version=1 pmi_subversion=1") == 0)
        return say(client, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    if (strcmp(line, "cmd=get_maxes") == 0) {
        snprintf(text, sizeof text, "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=%d\n",
                 manager->vallen_max);
        return say(client, text);
    }
    if (strcmp(line, "cmd=get_my_kvsname") == 0) return say(client, "cmd=my_kvsname kvsname=job\n");
    if (strcmp(line, "cmd=barrier_in") == 0) return barrier(manager, client);
    if (strcmp(line, "cmd=finalize") == 0) {
        client->has_finalized = true;
        return say(client, "cmd=finalize_ack\n");
    }
    if (strncmp(line, "cmd=put ", 8) == 0) return put(manager, client, line);
    return strncmp(line, "cmd=get ", 8) == 0 && get(manager, client, line);
}

/* False: the client said what it must not. */
static bool hear(struct manager *manager, struct client *client)
{
    const ssize_t got =
        recv(client->fd, client->buffer + client->buffered, LINE_BYTES_MAX - client->buffered, 0);
    if (got <= 0) {
        close(client->fd);
        client->fd = -1;
        return client->has_finalized;
    }
    client->buffered += (size_t)got;
    for (char *end; (end = memchr(client->buffer, '\n', client->buffered)) != NULL;) {
        *end = '\0';
        if (!answer(manager, client, client->buffer)) {
            fprintf(stderr, "the manager cannot answer: %.100s\n", client->buffer);
            return false;
        }
        client->buffered -= (size_t)(end + 1 - client->buffer);
        memmove(client->buffer, end + 1, client->buffered);
    }
    return client->buffered < LINE_BYTES_MAX;
}

int pmi_manager_serve(const int *fds, int client_count, int vallen_max)
{
    struct manager *const manager = calloc(1, sizeof *manager);
    if (manager == NULL || client_count > CLIENTS_MAX) return 1;
    manager->client_count = client_count;
    manager->vallen_max = vallen_max;
    for (int i = 0; i < client_count; i++) manager->clients[i].fd = fds[i];
    int faults = 0;
    for (int present = client_count; present > 0;) {
        struct pollfd entries[CLIENTS_MAX];
        for (int i = 0; i < client_count; i++)
            entries[i] = (struct pollfd){manager->clients[i].fd, POLLIN, 0};
        if (poll(entries, (nfds_t)client_count, 60000) <= 0) {
            faults++;
            break;
        }
        for (int i = 0; i < client_count; i++)
            if (entries[i].revents != 0 && manager->clients[i].fd >= 0) {
                faults += !hear(manager, &manager->clients[i]);
                present -= manager->clients[i].fd < 0;
            }
    }
    free(manager);
    return faults;
}
