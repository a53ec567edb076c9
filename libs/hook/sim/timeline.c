/* What a card does with its time.
 *
 * Within a context every stream runs in order and streams run side by side: kernels that together fit on the card run at full speed,
 * others share it in proportion (a kernel fills the card when it has a block for every SM). Contexts never run at once: they take
 * turns of one time slice, a context without runnable work gives its turn up, and nothing is sliced while one is alone. Under MPS
 * there are no turns: all contexts share the card as the streams of one do. */
#include "state.h"

typedef struct {
    uint16_t running[SIM_STREAMS];
    uint32_t count;
    uint64_t demand, step; /* step: until something changes */
    SimBusy busy;
} Plan;

bool sim_stream_may_run(const SimStream *s, const SimOp *head)
{
    if (!s->blocking)
        return true;
    if (!s->legacy) {
        const SimStream *legacy = &sim->stream[s->legacy_slot];
        return legacy->head == SIM_NONE || sim->op[legacy->head].sequence > head->sequence;
    }
    const SimCard *card = &sim->card[sim->context[s->context].card];
    for (uint32_t i = 0; i < card->active_count; i++) {
        const SimStream *other = &sim->stream[card->active[i]];
        if (other != s && other->context == s->context && other->blocking && sim->op[other->head].sequence < head->sequence)
            return false;
    }
    return true;
}

static bool instant(SimCard *card, SimOp *op)
{
    SimEvent *e = &sim->event[op->event];
    switch (op->kind) {
    case SIM_OP_RECORD:
        if (op->generation > e->done) {
            e->time_ns = card->now;
            e->done = op->generation;
        }
        return true;
    case SIM_OP_WAIT: return !e->live || e->done >= op->generation;
    case SIM_OP_HOST: return op->generation != 0; /* set by the process that ran it */
    case SIM_OP_NOTHING: return true;
    default: return op->left_ns == 0;
    }
}

static void settle(SimCard *card)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < card->active_count;) {
            uint32_t stream = card->active[i];
            SimStream *s = &sim->stream[stream];
            SimOp *head = &sim->op[s->head];
            if (sim_stream_may_run(s, head) && instant(card, head)) {
                sim_pop(stream);
                changed = true; /* an emptied stream was replaced at i, another head is tried again: i stays */
            } else {
                i++;
            }
        }
    }
}

/* Whose turn it is: the next context in slot order when the present one has used its slice or has nothing to run. */
static uint32_t turn(SimCard *card, const Plan *all, bool *alone)
{
    uint32_t first = SIM_NONE, next = SIM_NONE;
    bool present = false;
    *alone = true;
    for (uint32_t i = 0; i < all->count; i++) {
        uint32_t c = sim->stream[all->running[i]].context;
        *alone = *alone && c == sim->stream[all->running[0]].context;
        present = present || c == card->context;
        if (c < first)
            first = c;
        if (card->context != SIM_NONE && c > card->context && c < next)
            next = c;
    }
    if (*alone || (present && card->slice_left > 0)) {
        if (*alone)
            card->slice_left = sim->config.slice_ns;
        return *alone ? first : card->context;
    }
    card->slice_left = sim->config.slice_ns;
    return next != SIM_NONE ? next : first;
}

static void note(uint16_t *list, uint32_t *count, uint32_t proc)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i] == proc)
            return;
    list[(*count)++] = (uint16_t)proc;
}

static uint32_t proc_of(uint32_t stream) { return sim->context[sim->stream[stream].context].proc; }

static void choose(SimCard *card, Plan *plan)
{
    bool alone = true;
    uint32_t kept = 0;
    settle(card);
    plan->count = 0;
    plan->demand = 0;
    plan->step = UINT64_MAX;
    plan->busy.running = plan->busy.resident = 0;
    for (uint32_t i = 0; i < card->active_count; i++) {
        const SimStream *s = &sim->stream[card->active[i]];
        const SimOp *head = &sim->op[s->head];
        if (head->kind == SIM_OP_KERNEL && sim_stream_may_run(s, head))
            plan->running[plan->count++] = card->active[i];
    }
    if (plan->count == 0)
        return;
    if (sim->config.bias)
        for (uint32_t i = 0; i < plan->count; i++)
            note(plan->busy.here, &plan->busy.resident, proc_of(plan->running[i]));
    card->context = sim->config.mps ? sim->stream[plan->running[0]].context : turn(card, plan, &alone);
    for (uint32_t i = 0; i < plan->count; i++)
        if (sim->config.mps || sim->stream[plan->running[i]].context == card->context) {
            plan->running[kept++] = plan->running[i];
            plan->demand += sim->op[sim->stream[plan->running[kept - 1]].head].demand;
            note(plan->busy.runs, &plan->busy.running, proc_of(plan->running[kept - 1]));
        }
    plan->count = kept;
    if (plan->demand < SIM_FULL)
        plan->demand = SIM_FULL;
    for (uint32_t i = 0; i < kept; i++) {
        uint64_t left = sim->op[sim->stream[plan->running[i]].head].left_ns;
        uint64_t needs = (left * plan->demand + SIM_FULL - 1) / SIM_FULL;
        if (needs < plan->step)
            plan->step = needs;
    }
    if (!alone && card->slice_left < plan->step)
        plan->step = card->slice_left;
}

void sim_advance(uint32_t index, uint64_t until)
{
    static _Thread_local Plan plan;
    SimCard *card = &sim->card[index];
    for (;;) {
        choose(card, &plan);
        uint64_t room = until > card->now ? until - card->now : 0;
        if (plan.count == 0 || room == 0)
            break;
        uint64_t step = plan.step < room ? plan.step : room;
        sim_account(index, &plan.busy, card->now, card->now + step);
        sim_kill_point();
        for (uint32_t i = 0; i < plan.count; i++) {
            SimOp *op = &sim->op[sim->stream[plan.running[i]].head];
            uint64_t progress = step * SIM_FULL / plan.demand;
            if (progress == 0 || step * SIM_FULL >= op->left_ns * plan.demand)
                progress = progress == 0 ? 1 : op->left_ns;
            op->left_ns -= progress < op->left_ns ? progress : op->left_ns;
        }
        card->slice_left -= step < card->slice_left ? step : card->slice_left;
        card->now += step;
    }
    if (until > card->now) {
        sim_account(index, NULL, card->now, until);
        card->now = until;
    }
}

uint64_t sim_next_change(uint32_t index)
{
    static _Thread_local Plan plan;
    SimCard *card = &sim->card[index];
    choose(card, &plan);
    return plan.count ? card->now + plan.step : UINT64_MAX;
}

void sim_catch_up(uint32_t card) { sim_advance(card, sim_now()); }
