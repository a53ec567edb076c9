/* Rebuilds everything derived from the slots that still live, after a holder of the lock died or a process went away. A kill in the
 * middle of an advance may repeat one step of the timeline (a time slice at most); nothing else is lost or counted twice. */
#include "state.h"

#include <stdlib.h>

static int by_sequence(const void *a, const void *b)
{
    uint64_t x = sim->op[*(const uint32_t *)a].sequence, y = sim->op[*(const uint32_t *)b].sequence;
    return x < y ? -1 : x > y;
}

static void drop_orphans(void)
{
    for (uint32_t i = 0; i < SIM_CONTEXTS; i++) {
        SimContext *c = &sim->context[i];
        if (c->live && !sim->proc[c->proc].live)
            c->live = 0;
        c->pending = 0;
    }
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        SimStream *s = &sim->stream[i];
        if (s->live && !sim->context[s->context].live)
            s->live = 0;
        s->head = s->tail = SIM_NONE;
    }
    for (uint32_t i = 0; i < sim->threads_high; i++)
        if (sim->thread[i].live && !sim->proc[sim->thread[i].proc].live)
            sim->thread[i].live = 0;
    for (uint32_t i = 0; i < SIM_BLOCKS; i++)
        if (sim->block[i].live && sim_block_holder(&sim->block[i]) == SIM_NONE)
            sim->block[i].live = 0;
}

static void rebuild_events(void)
{
    sim->free_event = SIM_NONE;
    for (uint32_t i = sim->events_high; i-- > 0;) {
        SimEvent *e = &sim->event[i];
        if (e->live && !sim->proc[e->proc].live)
            e->live = 0;
        if (!e->live) {
            e->time_ns = sim->free_event; /* the link of the free list; the generations go on counting */
            sim->free_event = i;
        }
    }
}

static void rebuild_queues(void)
{
    uint32_t *order = malloc(sizeof *order * (sim->ops_high + 1));
    uint32_t n = 0;
    sim->free_op = SIM_NONE;
    for (uint32_t i = 0; i < SIM_CARDS; i++)
        sim->card[i].active_count = 0;
    for (uint32_t i = sim->ops_high; i-- > 0;) {
        SimOp *op = &sim->op[i];
        if (op->live && order && sim->stream[op->stream].live && op->sequence > sim->stream[op->stream].done) {
            order[n++] = i;
        } else {
            op->live = 0;
            op->next = sim->free_op;
            sim->free_op = i;
        }
    }
    if (n > 1)
        qsort(order, n, sizeof *order, by_sequence);
    for (uint32_t i = 0; i < n; i++) {
        SimOp *op = &sim->op[order[i]];
        SimStream *s = &sim->stream[op->stream];
        SimContext *c = &sim->context[s->context];
        op->next = SIM_NONE;
        if (s->head == SIM_NONE) {
            SimCard *card = &sim->card[c->card];
            s->head = order[i];
            s->active_at = card->active_count;
            card->active[card->active_count++] = (uint16_t)op->stream;
        } else {
            sim->op[s->tail].next = order[i];
        }
        s->tail = order[i];
        c->pending++;
    }
    free(order);
    for (uint32_t i = 0; i < SIM_STREAMS; i++)
        if (sim->stream[i].live && sim->stream[i].head == SIM_NONE)
            sim->stream[i].done = sim->stream[i].issued;
}

void sim_recover(void)
{
    sim->recoveries++;
    drop_orphans();
    rebuild_events();
    rebuild_queues();
    for (uint32_t i = 0; i < sim->config.cards; i++) {
        if (sim->card[i].context != SIM_NONE && !sim->context[sim->card[i].context].live)
            sim->card[i].context = SIM_NONE;
        sim_sum_used(i);
    }
}
