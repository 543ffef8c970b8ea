import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { processPartitions, processSuspects } from "../../src/domain/progression/claim.ts";
import { settleDeaths } from "../../src/domain/progression/deaths.ts";
import type { InHand } from "../../src/domain/progression/in-hand.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type QueuedEvent } from "../../src/domain/progression/queue.ts";
import { createProcessEvents } from "../../src/jobs/process-events.ts";
import { createHandNotesFile } from "../../src/platform/hand-notes-file.ts";
import { usersIn } from "../support/domain/process-parts.ts";
import {
  aCountingProject,
  dieWith,
  evaluate,
  lastNumber,
  processOn,
  trackNumbered,
  waitingEvents,
} from "../support/domain/in-hand.ts";
import { publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";
import { madeForEach } from "../support/made.ts";
import { workerApp } from "../support/domain/worker-app.ts";

const [SUSPECT_PARTS, FREE_PART] = [[3, 4, 5, 6, 7, 8], 2];
const EACH = 20;
const PART = 5;

describe("a worker with suspects", () => {
  const { domain } = memoryDomain();
  const dir = madeForEach(temporaryDir);
  let transactions: number;

  beforeEach(() => {
    transactions = 0;
  });
  afterEach(() => dir.remove());

  const addWaiting = async (parts: readonly number[], each: number): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "count", actions: [{ type: "grant_xp", amount: 1 }] });
    for (const part of parts) {
      const [user] = usersIn(projectId, part, 1);
      await domain.track(
        projectId,
        Array.from({ length: each }, () => ({ user: user! })),
      );
    }
    return projectId;
  };
  const appOfWorker = (): App => {
    const transact: Transact = (run) => {
      transactions++;
      return domain.transact(run);
    };
    return workerApp(domain, {
      transact,
      handNotes: createHandNotesFile(dir.path, (err) => assert.fail(String(err))),
    });
  };
  const sumOf = async (projectId: string): Promise<number> =>
    Object.values(await xpOf(domain, projectId)).reduce((sum, xp) => sum + xp, 0);

  it("gives back the other partitions before, and is through after a few claims", async () => {
    const killed = await addWaiting(SUSPECT_PARTS, EACH);
    (await processOn(dir.path)).open().take(await waitingEvents(domain, killed));
    const beside = await addWaiting([FREE_PART], 1);

    const app = appOfWorker();
    const processEvents = createProcessEvents();
    const released: string[] = [];
    let keys: readonly string[] = [FREE_PART, ...SUSPECT_PARTS].map(String);
    for (let claims = 0; keys.length > 0; claims++) {
      assert.ok(claims < 10, `${keys.length} partitions are left`);
      const left: string[] = [];
      const again = await processEvents.runTogether(app, keys, {
        leave: (some) => void left.push(...some),
        done: (some) => void released.push(...some),
      });
      if (claims === 0) assert.equal(await sumOf(beside), 1, "others come before the suspects");
      keys = [...left, ...again];
    }
    await processEvents.atStop!(app);
    assert.ok(released.includes(String(FREE_PART)));
    assert.equal(await sumOf(killed), SUSPECT_PARTS.length * EACH);
    assert.ok(transactions <= 12, `${transactions} transactions for ${SUSPECT_PARTS.length * EACH} suspects`);
  });
});

describe("suspects after a death", () => {
  const { domain } = memoryDomain();
  const dir = madeForEach(temporaryDir);
  let projectId: string;
  let failures: string[];
  let lost: string[];

  beforeEach(async () => {
    failures = [];
    lost = [];
    projectId = await aProject();
  });
  afterEach(() => dir.remove());

  const aProject = () => aCountingProject(domain);
  const track = (project: string, of: string, count: number) => trackNumbered(domain, project, of, count);
  const user = (project = projectId): string => usersIn(project, PART, 1)[0]!;
  const waiting = (project = projectId): Promise<QueuedEvent[]> => waitingEvents(domain, project);
  const aProcess = (): Promise<InHand> => processOn(dir.path);
  const diesWith = (...hands: (readonly QueuedEvent[])[]) => dieWith(dir.path, hands);
  const onError = (error: unknown): void => void failures.push(String(error));
  const onLost = (error: unknown): void => void lost.push(String(error));
  const options = (hand: InHand) => ({
    transact: domain.transact,
    plans: createPlanCache(),
    claimLimit: 100,
    hand,
    onLeft: () => assert.fail("left"),
    onError,
  });
  const claim = (hand: InHand) =>
    processPartitions(options(hand), [{ part: PART, afterProject: FIRST_PROJECT }]);
  const settle = (hand: InHand) => settleDeaths(hand, { transact: domain.transact, onError, onLost });
  const lastOf = (project: string) => lastNumber(domain, project);
  /**
   * Runs all suspects as a worker does.
   * @returns the sizes of the groups, until one dies: that with `guilty` in it
   */
  const runAll = async (hand: InHand, guilty?: string): Promise<number[]> => {
    const sizes: number[] = [];
    for (;;) {
      const group = hand.groupOf((await claim(hand)).suspects, 100);
      if (group.length === 0) return sizes;
      sizes.push(group.length);
      if (group.some(({ eventId }) => eventId === guilty)) {
        evaluate(hand, group);
        return sizes;
      }
      assert.equal((await processSuspects(options(hand), group)).events, group.length);
    }
  };

  it("are run in halves, and those that survive together cost no transaction each", async () => {
    await track(projectId, user(), 64);
    await diesWith(await waiting());
    assert.deepEqual(await runAll(await aProcess()), [32, 32]);
    assert.equal(await lastOf(projectId), 64);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 64 });
  });

  it("are halved again when a half dies, until the guilty one is alone", async () => {
    await track(projectId, user(), 40);
    await diesWith(await waiting());
    const guilty = (await waiting())[27]!.eventId;
    const sizes: number[] = [];
    for (let deaths = 0; deaths < 20; deaths++) {
      const hand = await aProcess();
      await settle(hand);
      sizes.push(...(await runAll(hand, guilty)));
      if ((await waiting())[0]?.eventId === guilty && sizes.at(-1) === 1) break;
    }
    assert.deepEqual(sizes, [20, 20, 10, 5, 5, 3, 2, 2, 1]);
    await settle(await aProcess());
    assert.equal(failures.length, 1, "it alone counts a try");
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 27 });
  });

  it("are halved by the smallest group in which one of them died", async () => {
    const other = await aProject();
    await track(projectId, user(), 10);
    await track(other, user(other), 6);
    const own = await waiting();
    await diesWith(own, await waiting(other));
    await diesWith(own.slice(0, 5));
    const hand = await aProcess();
    const { suspects } = await claim(hand);
    assert.equal(suspects.length, 16);
    assert.deepEqual(hand.groupOf(suspects, 100), await waiting(other), "those of the larger group first");
    assert.deepEqual(hand.groupOf(suspects, 4), (await waiting(other)).slice(0, 4));
    assert.deepEqual(hand.groupOf(own, 100), own.slice(0, 3), "half of the five");
    assert.deepEqual(hand.groupOf(own.slice(5), 100), own.slice(5));
  });

  it("are counted beside notes that say what cannot be", async () => {
    await track(projectId, user(), 1);
    await diesWith(await waiting());
    const own = JSON.parse(await readFile(join(dir.path, "in-hand.json"), "utf8"));
    const [stretch] = own.stretches;
    const impossible = [
      { ...own, stretches: [{ ...stretch, part: 99_999 }] },
      { ...own, stretches: [{ ...stretch, part: -1 }] },
      { ...own, stretches: [{ ...stretch, first: stretch.last + 1 }] },
      { ...own, stretches: Array(1_000).fill(stretch) },
      { ...own, alone: { ...own.alone, attempts: 70_000 } },
      { ...own, alone: { ...own.alone, part: 32 } },
      { ...own, size: 0 },
    ];
    const lines = impossible.map((note) => `${JSON.stringify(note)}\n`);
    await writeFile(join(dir.path, "in-hand-left.jsonl"), lines.join(""));
    const hand = await aProcess();
    assert.equal(hand.dead.length, 1);
    await settle(hand);
    assert.equal(failures.length, 1);
    assert.deepEqual(lost, []);
    assert.deepEqual((await readFile(join(dir.path, "in-hand-left.jsonl"), "utf8")).trim().split("\n"), [
      JSON.stringify(own),
    ]);
  });

  it("are counted beside an event whose death cannot be counted, which is forgotten", async () => {
    const [cursed] = await track(projectId, user(), 2);
    const [one, two] = await waiting();
    await diesWith([one!]);
    await diesWith([two!]);
    await domain.transact(async ({ db }) => {
      await sql`
        create function refuse() returns trigger language plpgsql
        as $$ begin raise 'refused'; end $$`.execute(db);
      await sql`
        create trigger refuse before insert on event_due for each row
        when (new.event_id = ${sql.lit(cursed!)}) execute function refuse()`.execute(db);
    });
    try {
      const hand = await aProcess();
      await settle(hand);
      assert.equal(failures.length, 2, "both were tried");
      assert.equal(lost.length, 1);
      assert.match(lost[0]!, /refused/);
      assert.equal(hand.dead.length, 1);
      const attempts = await rowsOf(
        domain,
        sql`select attempts from event_due where project_id = ${projectId}`,
      );
      assert.deepEqual(attempts, [{ attempts: 1 }]);
    } finally {
      await domain.transact(async ({ db }) => {
        await sql`drop trigger refuse on event_due`.execute(db);
        await sql`drop function refuse()`.execute(db);
      });
    }
  });
});
