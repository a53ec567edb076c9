/* Contexts, streams, events and the operations queued on streams: slots of the shared state, O(1) to take and to return. */
#include "state.h"

#include <string.h>

SimOp *sim_push(uint32_t stream, SimOpKind kind)
{
    SimStream *s = &sim->stream[stream];
    SimContext *c = &sim->context[s->context];
    uint32_t at = sim->free_op;
    if (at != SIM_NONE)
        sim->free_op = sim->op[at].next;
    else if (sim->ops_high < SIM_OPS)
        at = sim->ops_high++;
    else
        return NULL;
    SimOp *op = &sim->op[at];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->stream = stream;
    op->next = SIM_NONE;
    op->sequence = ++sim->sequence;
    sim_kill_point();
    op->live = 1;
    if (s->head == SIM_NONE) {
        SimCard *card = &sim->card[c->card];
        s->active_at = card->active_count;
        card->active[card->active_count++] = (uint16_t)stream;
        s->head = at;
    } else {
        sim->op[s->tail].next = at;
    }
    s->tail = at;
    s->issued = op->sequence;
    c->pending++;
    sim_kill_point();
    return op;
}

static void deactivate(uint32_t stream)
{
    SimStream *s = &sim->stream[stream];
    SimCard *card = &sim->card[sim->context[s->context].card];
    uint16_t last = card->active[--card->active_count];
    card->active[s->active_at] = last;
    sim->stream[last].active_at = s->active_at;
    if (s->live == 2) /* destroyed while busy: goes now */
        s->live = 0;
}

void sim_pop(uint32_t stream)
{
    SimStream *s = &sim->stream[stream];
    uint32_t at = s->head;
    SimOp *op = &sim->op[at];
    sim_kill_point();
    s->done = op->sequence;
    s->head = op->next;
    op->live = 0;
    sim_kill_point();
    op->next = sim->free_op;
    sim->free_op = at;
    sim->context[s->context].pending--;
    if (s->head == SIM_NONE) {
        s->tail = SIM_NONE;
        deactivate(stream);
    }
}

uint32_t sim_new_context(uint32_t card)
{
    for (uint32_t i = 0; i < SIM_CONTEXTS; i++)
        if (!sim->context[i].live) {
            sim->context[i] = (SimContext){.proc = sim_process(), .card = card};
            sim_kill_point();
            sim->context[i].live = 1;
            return i;
        }
    return SIM_NONE;
}

uint32_t sim_new_stream(uint32_t context, bool blocking, uint32_t legacy_slot)
{
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        SimStream *s = &sim->stream[i];
        if (s->live)
            continue;
        *s = (SimStream){.context = context, .blocking = blocking, .legacy = legacy_slot == SIM_NONE, .head = SIM_NONE, .tail = SIM_NONE};
        s->legacy_slot = legacy_slot == SIM_NONE ? i : legacy_slot;
        s->issued = s->done = sim->sequence;
        s->live = 1;
        return i;
    }
    return SIM_NONE;
}

void sim_drop_stream(uint32_t stream)
{
    SimStream *s = &sim->stream[stream];
    s->live = s->head == SIM_NONE ? 0 : 2;
}

uint32_t sim_new_event(void)
{
    uint32_t at = sim->free_event;
    if (at != SIM_NONE)
        sim->free_event = (uint32_t)sim->event[at].time_ns;
    else if (sim->events_high < SIM_EVENTS)
        at = sim->events_high++;
    else
        return SIM_NONE;
    SimEvent *e = &sim->event[at];
    e->proc = sim_process();
    e->done = e->issued; /* a record that an earlier owner left behind is older than this */
    e->time_ns = 0;
    sim_kill_point();
    e->live = 1;
    return at;
}

void sim_drop_event(uint32_t event)
{
    SimEvent *e = &sim->event[event];
    e->live = 0;
    e->time_ns = sim->free_event;
    sim->free_event = event;
}
