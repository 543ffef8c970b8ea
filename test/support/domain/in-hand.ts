import assert from "node:assert/strict";
import { sql } from "kysely";
import { InHand } from "../../../src/domain/progression/in-hand.ts";
import { eventOf, type QueuedEvent, type QueueRow } from "../../../src/domain/progression/queue.ts";
import { createHandNotesFile } from "../../../src/platform/hand-notes-file.ts";
import type { Domain } from "./domain.ts";
import { publish, rowsOf } from "./rule-projects.ts";

/** What a process on a directory has in hand: the process before it, which was not closed, has died. */
export const processOn = async (dir: string): Promise<InHand> => {
  const hand = new InHand(createHandNotesFile(dir, (err) => assert.fail(String(err))));
  await hand.look();
  return hand;
};

/** Begins to evaluate events in a claim that does not end. */
export const evaluate = (hand: InHand, events: readonly QueuedEvent[]): void => {
  const claimed = hand.open();
  claimed.take(events);
  claimed.evaluate();
};

/** Returns a project's events in the queue, in their order. */
export const waitingEvents = async (domain: Domain, projectId: string): Promise<QueuedEvent[]> => {
  const query = sql<QueueRow>`
    select q.part, q.seq, q.project_id, q.event_id, q.attempts, e.external_user_id, e.event_type,
      e.properties, e.occurred_at
    from event_q q join tracked_events e on e.project_id = q.project_id and e.id = q.event_id
    where q.project_id = ${projectId} order by q.seq`;
  return (await rowsOf(domain, query)).map(eventOf);
};

/** A project of which each event gives 1 XP and is remembered as the last one. */
export const aCountingProject = async (domain: Domain): Promise<string> => {
  const id = await domain.addProject();
  const set = { last: { $ref: "event.properties.n" } };
  const actions = [
    { type: "grant_xp", amount: 1 },
    { type: "update_player", set },
  ];
  await publish(domain, id, { key: "count", actions });
  return id;
};

/** Sends numbered events of a player, from 1. Answers their ids. */
export const trackNumbered = (
  domain: Domain,
  projectId: string,
  user: string,
  count: number,
): Promise<string[]> =>
  domain.track(
    projectId,
    Array.from({ length: count }, (_, n) => ({ user, properties: { n: n + 1 } })),
  );

/** The number of the event that a project's player remembers. */
export const lastNumber = async (domain: Domain, projectId: string): Promise<unknown> => {
  const query = sql<{ last: unknown }>`
    select attributes -> 'last' as last from players where project_id = ${projectId}`;
  return (await rowsOf(domain, query))[0]?.last;
};

/** A process on a directory dies with events in hand, which it had taken in these groups. */
export const dieWith = async (dir: string, hands: readonly (readonly QueuedEvent[])[]): Promise<void> => {
  const hand = await processOn(dir);
  for (const events of hands) evaluate(hand, events);
};
