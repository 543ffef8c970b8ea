import { conflict, DomainError } from "../../kernel/errors.ts";
import { savepoint } from "../../kernel/savepoint.ts";
import type { Work } from "../../kernel/work.ts";
import { type Reverted, revertEvents } from "../revert-events.ts";
import type { HowToRevert } from "../revert-result.ts";
import { chooseEvents, isOpen, readMatched, type Selection } from "./event-filter.ts";
import { GROUP_MAX, type Sums, withResults } from "./sums.ts";

/** Number of events examined per step to find those that are reverted next. */
const PAGE = 2_000;
/** Number of events per player of a step: as many players are in a transaction as have this many in it. */
const EVENTS_PER_PLAYER = 10;
/** Maximum number of events of a job that cannot be reverted. */
export const REFUSED_MAX = 1_000;

type Progress = { after: string; sums: Sums; how: HowToRevert };

/**
 * Reverts the next events of a selection, of some players together. Where that is too much for a transaction,
 * or an amount is missing that must not be, the next step tries half as many, until a single event is known
 * to be refused.
 * @returns `after`: the last event that needs not be examined again; undefined when none is left
 * @throws DomainError CONFLICT TOO_MANY_REFUSED
 */
export const revertNext = async (
  work: Work,
  selection: Selection,
  { after, sums, how }: Progress,
): Promise<{ after: string | undefined; sums: Sums }> => {
  const without = new Set(Object.keys(sums.refused));
  const page = await readMatched(work, selection, { after, limit: PAGE });
  const open = page.events.filter((one) => isOpen(one) && !without.has(one.id));
  if (open.length === 0) return { after: page.next, sums };
  const players = Math.max(1, Math.floor(sums.size / EVENTS_PER_PLAYER));
  const eventIds = await chooseEvents(work, selection, open, { players, events: sums.size, without });
  return { after, sums: await revertThose(work, selection.projectId, { eventIds, sums, how }) };
};

type Those = { eventIds: readonly string[]; sums: Sums; how: HowToRevert };

const revertThose = async (work: Work, projectId: string, { eventIds, sums, how }: Those): Promise<Sums> => {
  try {
    const reverted = await savepoint(work, () => revertEvents(work, projectId, { eventIds, ...how }));
    const next = withResults(sums, reverted.results);
    const size = Math.min(GROUP_MAX, 2 * sums.size);
    return refuse({ ...next, size }, unrevertedOf(eventIds, reverted));
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "CONFLICT") throw error;
    const [first, ...others] = eventIds;
    if (others.length > 0) return { ...sums, size: Math.ceil(eventIds.length / 2) };
    return refuse(sums, { [first!]: reasonOf(error) });
  }
};

const reasonOf = ({ reason, code }: DomainError): string => reason ?? code;

/** Events that another has sent are reverted with that one, and have no result of their own. */
const unrevertedOf = (eventIds: readonly string[], { refused }: Reverted): Readonly<Record<string, string>> =>
  Object.fromEntries(eventIds.flatMap((id) => (refused.has(id) ? [[id, refused.get(id)!]] : [])));

const refuse = (sums: Sums, more: Readonly<Record<string, string>>): Sums => {
  const refused = { ...sums.refused, ...more };
  if (Object.keys(refused).length > REFUSED_MAX)
    throw conflict("TOO_MANY_REFUSED", `more than ${REFUSED_MAX} of the events cannot be reverted`);
  return { ...sums, refused };
};
