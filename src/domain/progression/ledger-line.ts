import { type RawBuilder, sql } from "kysely";
import type { LedgerRow } from "../evaluation/effects.ts";
import { reasonOf } from "../evaluation/actions/action.ts";

/** What of a line is not stored where the rest of its row says the same, so that a line takes less. */
type Derived = Pick<LedgerRow, "reason" | "cause">;

/** The fourth part of a key is its action: `evt:digest:r:action`, `tgt:event:rule:action:n`. */
const actionOf = (key: string): string => key.split(":")[3] ?? "";

/**
 * Returns a line's reason and cause as they are stored. A line that a rule has written for a tracked event
 * leaves out what follows from the event, the key and the rule; all others are stored whole, as every line
 * was once. Read them with `lineReason` and `lineCause`.
 */
export const storedLine = ({ reason, cause, eventId, key }: LedgerRow): Derived => {
  const { kind, ruleKey } = cause;
  if (kind !== "RULE" || eventId === null) return { reason, cause };
  const stored = { ...cause };
  if (cause.eventId === eventId) delete stored.eventId;
  if (cause.rootEventId === eventId) delete stored.rootEventId;
  if (cause.actionId === actionOf(key)) delete stored.actionId;
  const isOwn = ruleKey !== undefined && reason === reasonOf({ ruleKey });
  return { reason: isOwn ? "" : reason, cause: stored };
};

/** Returns the whole cause of a stored line, jsonb. `of` is the alias of ledger_entries. */
export const lineCause = (of: string): RawBuilder<unknown> =>
  sql.raw(`case when ${of}.cause->>'kind' = 'RULE' and ${of}.event_id is not null
    then jsonb_build_object('eventId', ${of}.event_id, 'rootEventId', ${of}.event_id,
      'actionId', split_part(${of}.idempotency_key, ':', 4)) || ${of}.cause
    else ${of}.cause end`);

/** Returns the reason of a stored line. `of` is the alias of ledger_entries. */
export const lineReason = (of: string): RawBuilder<unknown> =>
  sql.raw(`case when ${of}.reason = '' and ${of}.cause->>'kind' = 'RULE'
    then 'rule:' || (${of}.cause->>'ruleKey') else ${of}.reason end`);
