/* card_distance.h - how far a device is from the cores of the calling thread, according to /sys. */
#ifndef TUTTI_TRANSPORT_OFI_CARD_DISTANCE_H
#define TUTTI_TRANSPORT_OFI_CARD_DISTANCE_H

/* NEAR: on the NUMA node of one of these cores; FAR: on another node; UNKNOWN: /sys does not
 * say. */
enum { DISTANCE_NEAR, DISTANCE_FAR, DISTANCE_UNKNOWN };

/* sys: a folder like /sys; device: the folder of a device in it, such as
 * "bus/pci/devices/0000:3b:00.0". Any thread; reads two small files. */
int card_distance_of_device(const char *sys, const char *device);
/* The same for a card by the name of its domain: "mlx5_0", "rdmap0s31-rdm", "cxi0". */
int card_distance(const char *sys, const char *domain);

#endif
