import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import { statementOf } from "../../src/domain/kernel/read.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { processApart, processPartitions } from "../../src/domain/progression/claim.ts";
import { groupsOf, noteClaim } from "../../src/domain/progression/claim-notes.ts";
import { loadPlans, projectPlans } from "../../src/domain/progression/plan.ts";
import {
  FIRST_PROJECT,
  QUEUED_EVENT,
  type QueuedEvent,
  requeueDueEvents,
} from "../../src/domain/progression/queue.ts";
import { getEvent, retryEvent } from "../../src/domain/tracking/events.ts";
import { createProcessEvents } from "../../src/jobs/process-events.ts";
import { memoryDomain, processParts, publish, rowsOf, usersIn, xpOf } from "../support/domain/domain.ts";
import { workerApp } from "../support/domain/sharing.ts";

const PART = 5;
const PLACES = [{ part: PART, afterProject: FIRST_PROJECT }];
const MINUTE_MS = 60_000;

describe("events that a process had in hand when it died", () => {
  const { database, domain } = memoryDomain();
  let projectId: string;
  let aheadMs = 0;
  let transact: Transact;
  let failures: string[];
  const plans = projectPlans;

  before(() => {
    transact = createTransact({
      em: database.em,
      clock: () => new Date(Date.now() + aheadMs),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
  });
  beforeEach(async () => {
    failures = [];
    await domain.sql`truncate event_claims, event_q, event_due`;
    projectId = await aProject();
  });

  /** A project of which each event gives 1 XP and is remembered as the last one. */
  const aProject = async (): Promise<string> => {
    const id = await domain.addProject();
    const set = { last: { $ref: "event.properties.n" } };
    const actions = [
      { type: "grant_xp", amount: 1 },
      { type: "update_player", set },
    ];
    await publish(domain, id, { key: "count", actions });
    await transact((work) => loadPlans(work, [id], plans));
    return id;
  };
  const user = (project = projectId, part = PART): string => usersIn(project, part, 1)[0]!;
  /** Sends numbered events of a player, from 1. */
  const track = (count: number, project = projectId, part = PART): Promise<string[]> =>
    domain.track(
      project,
      Array.from({ length: count }, (_, n) => ({ user: user(project, part), properties: { n: n + 1 } })),
    );
  const waiting = async (project = projectId): Promise<QueuedEvent[]> => {
    const query = sql<QueuedEvent>`
      select ${QUEUED_EVENT} from event_q q join tracked_events e on e.project_id = q.project_id and e.id = q.event_id
      where q.project_id = ${project} order by q.seq`;
    return rowsOf(domain, query);
  };
  const lastOf = async (project = projectId): Promise<unknown> => {
    const query = sql<{ last: unknown }>`
      select attributes -> 'last' as last from players where project_id = ${project}`;
    return (await rowsOf(domain, query))[0]?.last;
  };
  const notes = () => domain.sql`select part from event_claims`;
  const begin = (events: readonly QueuedEvent[], isEvaluating = false) =>
    transact((work) => noteClaim(work, { id: newId(), events, isEvaluating }));
  const unanswered = () => domain.sql`update event_claims set asked_at = now() - interval '3 s'`;
  /** A process begins to evaluate events in a claim, dies, and does not answer for it. */
  const diesWith = async (events: readonly QueuedEvent[], isEvaluating = false): Promise<void> => {
    await begin(events, isEvaluating);
    await unanswered();
  };
  const options = (by = transact) => ({
    transact: by,
    plans,
    claimLimit: 100,
    onLeft: () => assert.fail("left"),
    onError: (error: unknown) => void failures.push(String(error)),
  });
  const claim = (by = transact) => processPartitions(options(by), PLACES);
  const processAll = () => processParts(options(), [PART]);
  const statusOf = (id: string) => transact((work) => getEvent(work, projectId, id));

  it("are left with those behind them, and evaluated apart in their order; others go on", async () => {
    const other = await aProject();
    await track(2);
    await diesWith(await waiting());
    await track(3);
    await track(2, other);

    const done = await claim();
    assert.equal(done.events, 2);
    assert.deepEqual(done.again, [], "nothing is to be claimed before them");
    assert.deepEqual(await xpOf(domain, other), { [user(other)]: 2 });
    assert.deepEqual(
      groupsOf(done.apart),
      (await waiting()).slice(0, 2).map((event) => [event]),
    );
    assert.equal(await processAll(), 5);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 5 });
    assert.equal(await lastOf(), 3);
    assert.deepEqual(failures, [], "and no try counts");
  });

  it("are nobody's until the process has had time to say that it lives", async () => {
    await track(2);
    await begin(await waiting());
    const { events, busy } = await claim();
    assert.deepEqual({ events, busy }, { events: 0, busy: [PART] });
    assert.equal((await claim()).events, 0);
    await unanswered();
    assert.equal(await processAll(), 2);
  });

  it("are left by a claim that others have beaten to some of them, with no trace of it", async () => {
    const next = { part: PART + 1, afterProject: FIRST_PROJECT };
    await track(2);
    await track(2, projectId, next.part);
    let transactions = 0;
    // A process that has looked earlier notes what it has in hand where this claim's note would be.
    const late: Transact = async (run) => {
      if (++transactions === 2) {
        await transact(({ db }) =>
          sql`update event_claims set id = ${newId()}::uuid where part = ${PART}`.execute(db),
        );
        const some = (await waiting()).slice(0, 1);
        await assert.doesNotReject(begin(some), "its partition has a note");
      }
      return transact(run);
    };
    const { events } = await processPartitions(options(late), [...PLACES, next]);
    assert.equal(events, 0);
    assert.deepEqual(await notes(), [{ part: PART }], "that of the other process alone");
    assert.equal(await processParts(options(), [next.part]), 2);
    await unanswered();
    assert.equal(await processAll(), 2);
    assert.deepEqual(failures, []);
  });

  it("are forgotten with their effects, and where their claim is undone by an outage", async () => {
    await track(1);
    const broken = Object.assign(new Error("away"), { code: "ECONNRESET" });
    let transactions = 0;
    const away: Transact = (run) => (++transactions === 2 ? Promise.reject(broken) : transact(run));
    await assert.rejects(claim(away), broken);
    assert.deepEqual(await notes(), []);
    assert.equal((await claim()).events, 1);
    assert.deepEqual(await notes(), []);
  });

  it("are not taken up again by a process that was taken for dead", async () => {
    await track(3);
    let transactions = 0;
    const slow: Transact = async (run) => {
      if (++transactions === 2) {
        await unanswered();
        assert.equal(await processAll(), 3);
      }
      return transact(run);
    };
    assert.equal((await claim(slow)).events, 0);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 3 });
    assert.equal(await lastOf(), 3);
  });

  it("are evaluated in groups of a tenth of what was in hand, until each is alone and counts a try", async () => {
    await track(30);
    const sizes: number[] = [];
    for (let n = 0; n < 3; n++) {
      await diesWith(n === 0 ? await waiting() : groupsOf((await claim()).apart)[0]!, n > 0);
      sizes.push(groupsOf((await claim()).apart)[0]!.length);
    }
    assert.deepEqual(sizes, [3, 1, 1]);
    assert.equal(failures.length, 1);
  });

  it("count no try where their claim waited for the database, however often that happens", async () => {
    await track(1);
    for (let n = 0; n < 6; n++) {
      await diesWith(await waiting());
      assert.equal((await claim()).apart.length, 1);
    }
    assert.deepEqual(failures, []);
  });

  it("are noted as evaluated only while they are", async () => {
    await track(1);
    await diesWith(await waiting());
    const [group] = groupsOf((await claim()).apart);
    const seen: unknown[] = [];
    const beside = async (statement: RawBuilder<unknown>): Promise<void> =>
      void seen.push(statementOf(statement).values[0]);
    assert.equal((await processApart({ ...options(), beside }, group!)).events, 1);
    assert.deepEqual(seen, [true, false]);
    await track(1);
    assert.equal((await processPartitions({ ...options(), beside }, PLACES)).events, 1);
    assert.equal(seen.length, 2, "and those of other claims never");
  });

  it("are FAILED after the tries in which they were alone, with what a retry by hand needs", async () => {
    const [guilty] = await track(1);
    await diesWith(await waiting());
    const attempts: number[] = [];
    for (let n = 0; n < 4; n++) {
      const { apart } = await claim();
      attempts.push(apart[0]!.attempts);
      await diesWith(apart, true);
      await claim();
      assert.deepEqual(await waiting(), []);
      aheadMs += MINUTE_MS + 1;
      await transact(requeueDueEvents);
    }
    assert.deepEqual(attempts, [0, 1, 2, 3]);
    assert.equal(failures.length, 4);
    const { status, error } = await statusOf(guilty!);
    assert.equal(status, "FAILED");
    assert.match(error!, /^PROCESS_DIED: /);

    await transact((work) => retryEvent(work, projectId, guilty!));
    await claim();
    assert.equal((await statusOf(guilty!)).status, "PROCESSED");
  });

  it("do not hold back partitions without any", async () => {
    await track(20);
    await diesWith(await waiting());
    const other = await aProject();
    await track(1, other, PART + 1);
    const app = workerApp(domain, transact);
    const processEvents = createProcessEvents();
    const released: string[] = [];
    const held = { leave: () => undefined, done: (some: readonly string[]) => void released.push(...some) };
    let keys: readonly string[] = [PART, PART + 1].map(String);
    for (let claims = 0; keys.length > 0; claims++) {
      assert.ok(claims < 3, `${keys.join(", ")} are left`);
      keys = await processEvents.runTogether(app, keys, held, false);
    }
    assert.deepEqual(released, [String(PART + 1)]);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 20 });
    assert.deepEqual(await xpOf(domain, other), { [user(other, PART + 1)]: 1 });
  });
});
