import { newId } from "../../kernel/ids.ts";
import type { Effects, ExecutionRow, RecordedScore } from "../effects.ts";
import { write } from "../event-steps.ts";
import type { Turn } from "../turn.ts";
import type { CompiledRule } from "./compile.ts";

/** Maximum effects recorded of a firing in SHADOW. */
const EFFECTS_MAX = 50;

/** Records that a rule fired, or would have. */
export const recordExecution = (
  turn: Turn,
  { id: ruleId, version }: Pick<CompiledRule, "id" | "version">,
  what: Pick<ExecutionRow, "mode" | "effects">,
): void => {
  const { event, player, root } = turn;
  write(turn, "executions", {
    projectId: player.projectId,
    ruleId,
    id: newId(),
    ruleVersion: version,
    playerId: player.id,
    eventId: root.id,
    depth: event.depth,
    ...what,
  });
};

/**
 * Returns the scores that a firing has submitted, to be recorded with it; null for a rule that submits none.
 */
export const submitted = (
  { definition }: Pick<CompiledRule, "definition">,
  { scores }: Effects,
  from: { scores: number },
): { scores: RecordedScore[] } | null =>
  definition.actions.some(({ type }) => type === "submit_score")
    ? { scores: scores.slice(from.scores) }
    : null;

type From = { outbox: number; spawned: number };

/** Returns what a firing would have published and sent, to be recorded when it is rolled back. */
export const rehearsed = ({ outbox, spawned }: Effects, from: From): { type: string; data: unknown }[] =>
  [
    ...outbox.slice(from.outbox).map(({ type, data }) => ({ type, data })),
    ...spawned.slice(from.spawned).map(({ eventType, externalUserId, properties }) => ({
      type: eventType,
      data: { externalUserId, ...properties },
    })),
  ].slice(0, EFFECTS_MAX);
