import { NIL_ID } from "../kernel/ids.ts";
import { PacedBudget, type Pieces } from "../kernel/pace.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Work } from "../kernel/work.ts";
import { HISTORY_PAGE, type HistoryEvent, type HistoryOf, readHistories } from "../rules/insight/history.ts";
import { tooLarge } from "./too-large.ts";

/** Maximum number of one player's events read to revert some of them, and of steps for them. */
const EVENTS_READ_MAX = 50_000;
const STEPS_READ_MAX = 20_000_000;

/** Is shown the events of one player; may look at each in pieces. */
export type HistoryVisitor = { visit(event: HistoryEvent, steps: StepBudget): Pieces<void> | void };

type Reading = HistoryVisitor & { playerId: string };

/** How much was read of one player. */
type Progress = { read: number; steps: PacedBudget; isOver: boolean };

/**
 * Shows the processed events of players in the order of their arrival, with those to be reverted. Statements
 * depend on the number of events, not of players.
 * @returns the players of whom that was all: others have too many, or their visits have taken too many steps
 * @throws DomainError CONFLICT EVENT_TOO_LARGE when several players have more than one may have
 */
export const visitHistories = async (
  work: Work,
  projectId: string,
  readings: readonly Reading[],
): Promise<Set<string>> => {
  const progress = new Map<string, Progress>(
    readings.map(({ playerId }) => [
      playerId,
      { read: 0, steps: new PacedBudget(STEPS_READ_MAX), isOver: false },
    ]),
  );
  const visitors = new Map(readings.map((reading) => [reading.playerId, reading]));
  let rest: HistoryOf[] = readings.map(({ playerId }) => ({ playerId, afterId: NIL_ID }));
  while (rest.length > 0) {
    const page = await readHistories(work, projectId, rest, { limit: HISTORY_PAGE });
    for (const { place, event } of page) {
      const { playerId } = rest[place]!;
      await show(visitors.get(playerId)!, event, progress.get(playerId)!);
    }
    checkTogether([...progress.values()]);
    const last = page.at(-1);
    if (!last || page.length < HISTORY_PAGE) break;
    const [{ playerId }, ...others] = rest.slice(last.place) as [HistoryOf, ...HistoryOf[]];
    rest = progress.get(playerId)!.isOver ? others : [{ playerId, afterId: last.event.id }, ...others];
  }
  return new Set([...progress].filter(([, { isOver }]) => !isOver).map(([playerId]) => playerId));
};

const show = async (visitor: HistoryVisitor, event: HistoryEvent, of: Progress): Promise<void> => {
  of.read++;
  of.isOver ||= of.read > EVENTS_READ_MAX || of.steps.isSpent;
  if (of.isOver) return;
  for (const cost of visitor.visit(event, of.steps) ?? []) {
    of.steps.spend(cost);
    await of.steps.pause();
  }
  await of.steps.pause();
};

const checkTogether = (all: readonly Progress[]): void => {
  if (all.length < 2) return;
  const read = all.reduce((sum, one) => sum + one.read, 0);
  const steps = all.reduce((sum, one) => sum + one.steps.spent, 0);
  if (read > EVENTS_READ_MAX || steps > STEPS_READ_MAX)
    throw tooLarge("the players have too many other events");
};
