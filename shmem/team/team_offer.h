/* SPDX-License-Identifier: MIT */
/* Exchanges between those members of a team that are on one node. */
#ifndef ISO_TEAM_OFFER_H
#define ISO_TEAM_OFFER_H

#include "../node/peer.h"
#include "team.h"

/* Collective over the team: iso_pe_exchange for its members. theirs[i] of a local PE that is not a member keeps len 0,
 * which no member's offer has. 0, or -errno, perhaps on some members
 * alone; a descriptor that did not come is -1. */
int iso_team_exchange(struct team *team, const struct pe_offer *mine, struct pe_offer *theirs, const char *call);

#endif
