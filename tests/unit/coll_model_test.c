/* SPDX-License-Identifier: MIT */
/* The protocols of slots, model checked: all interleavings of two or three abstract PEs whose stores become visible in
 * any order (but those before a release store before it, and those to one word in order). Loads are done in order, as
 * behind an acquire. Each protocol must hold, and each of its mutants (a rule left out) must be caught: so the checker
 * can fail. The real hardware of most machines hides what is tried here. */
#include "../check.h"

enum { PES_MOST = 3, WORDS = 64, CODE = 96, BUFFER = 4, SLOTS_LOG2 = 22, STATES_MOST = 3 << 20 };

/* ---- programs ---- */

enum verb {
    STORE,   /* plain: word = value */
    RELEASE, /* release store: all earlier stores of this PE become visible before it */
    WAIT,    /* until word >= value */
    EXPECT,  /* word == value, or the protocol is broken */
    ARRIVE, /* fetch_add(word, 1), acquire and release; the last of `count` resets it and releases `word + 1` = value */
    JOIN    /* fetch_add(word, 1), acquire and release */
};

struct instruction {
    unsigned char verb, word, value, count;
};

struct program {
    struct instruction code[CODE];
    int length;
};

struct protocol {
    const char *name;
    int n;
    struct program programs[PES_MOST];
};

static void emit(struct protocol *p, int pe, enum verb verb, int word, int value)
{
    struct program *program = &p->programs[pe];
    CHECK(program->length < CODE && word < WORDS);
    struct instruction *i = &program->code[program->length++];
    i->verb = (unsigned char)verb;
    i->word = (unsigned char)word;
    i->value = (unsigned char)value;
    i->count = (unsigned char)p->n;
}

/* ---- one state of the whole machine ---- */

struct pending {
    unsigned char word, value, release;
};

struct machine {
    unsigned char memory[WORDS];
    struct pending buffer[PES_MOST][BUFFER]; /* stores not yet visible to others, oldest first */
    unsigned char pending[PES_MOST], at[PES_MOST];
};

static int visible(const struct machine *m, int pe, int word)
{
    for (int i = m->pending[pe] - 1; i >= 0; i--)
        if (m->buffer[pe][i].word == word)
            return m->buffer[pe][i].value;
    return m->memory[word];
}

/* Store i of the buffer may become visible now. */
static bool may_drain(const struct machine *m, int pe, int i)
{
    const struct pending *store = &m->buffer[pe][i];
    for (int k = 0; k < i; k++)
        if (store->release || m->buffer[pe][k].word == store->word)
            return false;
    return true;
}

static void drain(struct machine *m, int pe, int i)
{
    m->memory[m->buffer[pe][i].word] = m->buffer[pe][i].value;
    memmove(&m->buffer[pe][i], &m->buffer[pe][i + 1], sizeof(struct pending) * (size_t)(m->pending[pe] - i - 1));
    m->pending[pe]--;
    memset(&m->buffer[pe][m->pending[pe]], 0, sizeof(struct pending)); /* equal states have equal bytes */
}

static void push(struct machine *m, int pe, int word, int value, bool release)
{
    struct pending store = {(unsigned char)word, (unsigned char)value, release};
    m->buffer[pe][m->pending[pe]++] = store;
}

enum outcome { BLOCKED, DONE, BROKEN };

static enum outcome arrive(struct machine *m, int pe, const struct instruction *i)
{
    if (m->pending[pe] != 0)
        return BLOCKED; /* an atomic that releases */
    if (++m->memory[i->word] == i->count) {
        push(m, pe, i->word, 0, false);
        push(m, pe, i->word + 1, i->value, true);
    }
    return DONE;
}

static enum outcome execute(struct machine *m, int pe, const struct instruction *i)
{
    switch ((enum verb)i->verb) {
    case STORE:
    case RELEASE:
        if (m->pending[pe] == BUFFER)
            return BLOCKED;
        push(m, pe, i->word, i->value, i->verb == RELEASE);
        return DONE;
    case WAIT:
        return visible(m, pe, i->word) >= i->value ? DONE : BLOCKED;
    case EXPECT:
        return visible(m, pe, i->word) == i->value ? DONE : BROKEN;
    case ARRIVE:
        return arrive(m, pe, i);
    case JOIN:
        if (m->pending[pe] != 0)
            return BLOCKED;
        m->memory[i->word]++;
        return DONE;
    }
    return BROKEN;
}

/* ---- the search ---- */

struct search {
    const struct protocol *protocol;
    struct machine *states; /* reached, in the order of discovery */
    uint32_t *table;        /* hash: index + 1 */
    size_t n;
    bool broken, stuck, full;
};

static void add_state(struct search *s, const struct machine *m)
{
    const unsigned char *bytes = (const unsigned char *)m;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof(*m); i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    size_t mask = ((size_t)1 << SLOTS_LOG2) - 1, at = (hash ^ hash >> 29) & mask;
    for (; s->table[at] != 0; at = (at + 1) & mask)
        if (memcmp(&s->states[s->table[at] - 1], m, sizeof(*m)) == 0)
            return;
    if (s->n == STATES_MOST) {
        s->full = true;
        return;
    }
    s->states[s->n++] = *m;
    s->table[at] = (uint32_t)s->n;
}

/* All epochs that PE `pe` can do next; how many there were. */
static int expand_pe(struct search *s, const struct machine *from, int pe)
{
    int epochs = 0;
    for (int i = 0; i < from->pending[pe]; i++)
        if (may_drain(from, pe, i)) {
            struct machine m = *from;
            drain(&m, pe, i);
            add_state(s, &m);
            epochs++;
        }
    const struct program *program = &s->protocol->programs[pe];
    if (from->at[pe] == program->length)
        return epochs;
    struct machine m = *from;
    enum outcome outcome = execute(&m, pe, &program->code[from->at[pe]]);
    if (outcome == BROKEN)
        s->broken = true;
    if (outcome != DONE)
        return epochs;
    m.at[pe]++;
    add_state(s, &m);
    return epochs + 1;
}

static void expand(struct search *s, size_t index)
{
    struct machine from = s->states[index];
    bool ended = true;
    int epochs = 0;
    for (int pe = 0; pe < s->protocol->n; pe++) {
        epochs += expand_pe(s, &from, pe);
        ended = ended && from.at[pe] == s->protocol->programs[pe].length;
    }
    if (epochs == 0 && !ended && !s->broken)
        s->stuck = true;
}

static struct search explore(const struct protocol *protocol)
{
    struct search s = {.protocol = protocol};
    s.states = (struct machine *)malloc(sizeof(struct machine) * STATES_MOST);
    s.table = (uint32_t *)calloc((size_t)1 << SLOTS_LOG2, sizeof(uint32_t));
    if (s.states == NULL || s.table == NULL) {
        fprintf(stderr, "coll_model_test: no memory for the states\n");
        exit(CHECK_FAILED);
    }
    struct machine first;
    memset(&first, 0, sizeof(first));
    add_state(&s, &first);
    for (size_t i = 0; i < s.n && !s.broken && !s.stuck && !s.full; i++)
        expand(&s, i);
    free(s.states);
    free(s.table);
    return s;
}

static void holds(const struct protocol *p)
{
    struct search s = explore(p);
    printf("%-44s %d PEs %8zu states: %s\n", p->name, p->n, s.n, s.broken || s.stuck ? "broken" : "holds");
    CHECK_NAMED(!s.full, p->name);
    CHECK_NAMED(!s.broken, p->name);
    CHECK_NAMED(!s.stuck, p->name);
}

static void is_caught(const struct protocol *p)
{
    struct search s = explore(p);
    printf("%-44s %d PEs %8zu states: %s\n", p->name, p->n, s.n, s.broken || s.stuck ? "caught" : "not caught");
    CHECK_NAMED(s.broken || s.stuck, p->name);
}

static struct protocol *start(struct protocol *p, const char *name, int n)
{
    memset(p, 0, sizeof(*p));
    p->name = name;
    p->n = n;
    return p;
}

/* ---- words: of receiver `to`, written by `from` ---- */

static int flag_word(int to, int from) { return to * PES_MOST + from; }
static int data_word(int pe) { return 9 + pe; }
static int packet_seq(int to, int from, int bank) { return 12 + (bank * PES_MOST + to) * PES_MOST + from; }
static int packet_data(int to, int from, int bank) { return 30 + (bank * PES_MOST + to) * PES_MOST + from; }
enum { COUNTER = 48, RELEASE_WORD = 49, SCRATCH = 50, CLOSED = 56, GRANT = 57 };

/* ---- the flag barrier: what was stored before it is seen behind it ---- */

static void flag_barrier(struct protocol *p, int pe, int epoch, enum verb flag)
{
    for (int to = 0; to < p->n; to++)
        if (to != pe)
            emit(p, pe, flag, flag_word(to, pe), epoch);
    for (int from = 0; from < p->n; from++)
        if (from != pe)
            emit(p, pe, WAIT, flag_word(pe, from), epoch);
}

/* Data of epoch k, barrier 2k - 1, everybody reads all data, barrier 2k, so that it may be overwritten. */
static void make_flag_barrier(struct protocol *p, int rounds, enum verb flag, bool second_barrier)
{
    for (int pe = 0; pe < p->n; pe++)
        for (int round = 1; round <= rounds; round++) {
            emit(p, pe, STORE, data_word(pe), round);
            flag_barrier(p, pe, 2 * round - 1, flag);
            for (int other = 0; other < p->n; other++)
                emit(p, pe, EXPECT, data_word(other), round);
            if (second_barrier)
                flag_barrier(p, pe, 2 * round, flag);
        }
}

static void test_flag_barrier(void)
{
    struct protocol p;
    for (int n = 2; n <= 3; n++) {
        make_flag_barrier(start(&p, "flag barrier", n), n == 2 ? 3 : 1, RELEASE, true);
        holds(&p);
    }
    make_flag_barrier(start(&p, "flag barrier with plain flags", 2), 2, STORE, true);
    is_caught(&p);
    make_flag_barrier(start(&p, "flag barrier, data reused behind one", 2), 2, RELEASE, false);
    is_caught(&p);
}

/* ---- dissemination: member m flags m + 2^k and waits for m - 2^k ---- */

static void make_dissemination(struct protocol *p, int rounds, int distances)
{
    for (int pe = 0; pe < p->n; pe++)
        for (int round = 0, epoch = 1; round < rounds; round++) {
            emit(p, pe, STORE, data_word(pe), round + 1);
            for (int barrier = 0; barrier < 2; barrier++) {
                for (int distance = 1; distance <= distances; distance *= 2, epoch++) {
                    emit(p, pe, RELEASE, flag_word((pe + distance) % p->n, pe), epoch);
                    emit(p, pe, WAIT, flag_word(pe, (pe - distance + p->n) % p->n), epoch);
                }
                for (int other = 0; other < p->n && barrier == 0; other++)
                    emit(p, pe, EXPECT, data_word(other), round + 1);
            }
        }
}

static void test_dissemination(void)
{
    struct protocol p;
    make_dissemination(start(&p, "dissemination barrier", 3), 2, 2);
    holds(&p);
    make_dissemination(start(&p, "dissemination, one round too few", 3), 2, 1);
    is_caught(&p);
}

/* ---- packets: payload, then its number; `banks` in turn ---- */

static void make_packets(struct protocol *p, int rounds, int banks, enum verb number)
{
    for (int pe = 0; pe < p->n; pe++)
        for (int round = 1; round <= rounds; round++) {
            int bank = round % banks;
            for (int to = 0; to < p->n; to++)
                if (to != pe) {
                    emit(p, pe, STORE, packet_data(to, pe, bank), 10 * pe + round);
                    emit(p, pe, number, packet_seq(to, pe, bank), round);
                }
            for (int from = 0; from < p->n; from++)
                if (from != pe) {
                    emit(p, pe, WAIT, packet_seq(pe, from, bank), round);
                    emit(p, pe, EXPECT, packet_data(pe, from, bank), 10 * from + round);
                }
        }
}

/* The rule of staged epochs broken: PE 0 sends, nobody answers. */
static void make_one_sided_packets(struct protocol *p, int rounds)
{
    for (int round = 1; round <= rounds; round++) {
        emit(p, 0, STORE, packet_data(1, 0, round % 2), round);
        emit(p, 0, RELEASE, packet_seq(1, 0, round % 2), round);
        emit(p, 1, WAIT, packet_seq(1, 0, round % 2), round);
        emit(p, 1, EXPECT, packet_data(1, 0, round % 2), round);
    }
}

static void test_packets(void)
{
    struct protocol p;
    make_packets(start(&p, "packets in two banks", 2), 5, 2, RELEASE);
    holds(&p);
    make_packets(start(&p, "packets in two banks", 3), 3, 2, RELEASE);
    holds(&p);
    make_packets(start(&p, "packets in one bank", 2), 3, 1, RELEASE);
    is_caught(&p);
    make_packets(start(&p, "packets with a plain number", 2), 1, 2, STORE);
    is_caught(&p);
    make_one_sided_packets(start(&p, "packets without an answer", 2), 3);
    is_caught(&p);
}

/* ---- the scratch behind the central counter, which also is the central barrier ---- */

static void make_scratch(struct protocol *p, int rounds, int banks)
{
    for (int pe = 0; pe < p->n; pe++)
        for (int round = 1; round <= rounds; round++) {
            int base = SCRATCH + (round % banks) * PES_MOST;
            emit(p, pe, STORE, base + pe, 10 * pe + round);
            emit(p, pe, ARRIVE, COUNTER, round);
            emit(p, pe, WAIT, RELEASE_WORD, round);
            for (int from = 0; from < p->n; from++)
                emit(p, pe, EXPECT, base + from, 10 * from + round);
        }
}

static void test_scratch(void)
{
    struct protocol p;
    make_scratch(start(&p, "scratch in two banks", 2), 4, 2);
    holds(&p);
    make_scratch(start(&p, "scratch in two banks", 3), 4, 2);
    holds(&p);
    make_scratch(start(&p, "scratch in one bank", 2), 2, 1);
    is_caught(&p);
}

/* ---- broadcast by push: the root runs ahead, the flags only grow ---- */

static void make_push(struct protocol *p, int rounds, enum verb flag)
{
    for (int round = 1; round <= rounds; round++) {
        emit(p, 0, STORE, SCRATCH + round, round);
        emit(p, 0, flag, flag_word(1, 0), round);
        emit(p, 1, WAIT, flag_word(1, 0), round);
        emit(p, 1, EXPECT, SCRATCH + round, round);
    }
}

/* Read by pull: the owner overwrites its source once the reader has said that it is done. */
static void make_pull(struct protocol *p, int rounds, bool wait_for_done)
{
    for (int round = 1; round <= rounds; round++) {
        emit(p, 0, STORE, data_word(0), round);
        emit(p, 0, RELEASE, flag_word(1, 0), round);
        if (wait_for_done)
            emit(p, 0, WAIT, flag_word(0, 1), round);
        emit(p, 1, WAIT, flag_word(1, 0), round);
        emit(p, 1, EXPECT, data_word(0), round);
        emit(p, 1, RELEASE, flag_word(0, 1), round);
    }
}

static void test_broadcast(void)
{
    struct protocol p;
    make_push(start(&p, "push without credit", 2), 4, RELEASE);
    holds(&p);
    make_push(start(&p, "push with a plain flag", 2), 2, STORE);
    is_caught(&p);
    make_pull(start(&p, "pull", 2), 4, true);
    holds(&p);
    make_pull(start(&p, "pull, owner does not stay", 2), 2, false);
    is_caught(&p);
}

/* ---- reuse of a slot: the next team's epochs begin behind the last one's, and only when all have closed ---- */

/* Team 1 is PEs 0 and 1, with `epochs` barriers; team 2 is PEs 1 and 2, led by 1, in the same memory: flags of member i
 * lie in place i, so PE 2 writes where PE 0 wrote. The last flag of PE 0 may still be on its way when PE 1 is done. */
static void make_reuse(struct protocol *p, int epochs, int first, bool wait_for_closed)
{
    for (int pe = 0; pe < 2; pe++)
        for (int epoch = 1; epoch <= epochs; epoch++) {
            emit(p, pe, RELEASE, flag_word(1 - pe, pe), epoch);
            emit(p, pe, WAIT, flag_word(pe, 1 - pe), epoch);
        }
    emit(p, 0, RELEASE, flag_word(1, 0), epochs + 1); /* an epoch in which PE 0 sends and PE 1 does not wait */
    emit(p, 0, JOIN, CLOSED, 0);
    emit(p, 1, JOIN, CLOSED, 0);
    if (wait_for_closed)
        emit(p, 1, WAIT, CLOSED, 2);
    emit(p, 1, RELEASE, GRANT, 1);
    emit(p, 2, WAIT, GRANT, 1);
    emit(p, 2, STORE, data_word(2), 77);
    emit(p, 2, RELEASE, flag_word(1, 0), first + 1);
    emit(p, 1, WAIT, flag_word(1, 0), first + 1);
    emit(p, 1, EXPECT, data_word(2), 77);
    emit(p, 1, EXPECT, flag_word(1, 0), first + 1); /* nobody of the last team writes here any more */
}

static void test_reuse(void)
{
    struct protocol p;
    make_reuse(start(&p, "reuse of a slot", 3), 2, 3, true);
    holds(&p);
    make_reuse(start(&p, "reuse with epochs that begin at 0 again", 3), 2, 0, true);
    is_caught(&p);
    make_reuse(start(&p, "reuse before all have closed", 3), 2, 3, false);
    is_caught(&p);
}

int main(void)
{
    test_flag_barrier();
    test_dissemination();
    test_packets();
    test_scratch();
    test_broadcast();
    test_reuse();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
