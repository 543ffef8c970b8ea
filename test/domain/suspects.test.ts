import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { idBefore } from "../../src/domain/kernel/ids.ts";
import { processPartitions, processSuspects } from "../../src/domain/progression/claim.ts";
import { settleDeaths } from "../../src/domain/progression/deaths.ts";
import type { InHand } from "../../src/domain/progression/in-hand.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type QueuedEvent } from "../../src/domain/progression/queue.ts";
import { requeueDueEvents } from "../../src/domain/progression/waiting-work.ts";
import { getEvent, retryEvent } from "../../src/domain/tracking/events.ts";
import { processParts, usersIn } from "../support/domain/process-parts.ts";
import {
  aCountingProject,
  dieWith,
  evaluate,
  lastNumber,
  processOn,
  trackNumbered,
  waitingEvents,
} from "../support/domain/in-hand.ts";
import { xpOf } from "../support/domain/rule-projects.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";
import { madeForEach } from "../support/made.ts";

const PART = 5;
const MINUTE_MS = 60_000;

describe("events that a process had in hand when it died", () => {
  const { database, domain } = memoryDomain();
  const dir = madeForEach(temporaryDir);
  let projectId: string;
  let aheadMs = 0;
  let transact: Transact;
  let failures: string[];

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
    projectId = await aProject();
  });
  afterEach(() => dir.remove());

  const aProject = () => aCountingProject(domain);
  const track = (project: string, of: string, count: number) => trackNumbered(domain, project, of, count);
  const user = (project = projectId): string => usersIn(project, PART, 1)[0]!;
  const waiting = (project = projectId): Promise<QueuedEvent[]> => waitingEvents(domain, project);
  /** A process: the one before it on the directory, which was not closed, has died. */
  const aProcess = (): Promise<InHand> => processOn(dir.path);
  const diesWith = (...hands: (readonly QueuedEvent[])[]) => dieWith(dir.path, hands);
  const options = (hand: InHand) => ({
    transact,
    plans: createPlanCache(),
    claimLimit: 100,
    hand,
    onLeft: () => assert.fail("left"),
    onError: (error: unknown) => void failures.push(String(error)),
  });
  const claim = (hand: InHand) =>
    processPartitions(options(hand), [{ part: PART, afterProject: FIRST_PROJECT }]);
  const settle = (hand: InHand) =>
    settleDeaths(hand, {
      transact,
      onError: (error) => void failures.push(String(error)),
      onLost: (error) => assert.fail(String(error)),
    });
  const lastOf = (project = projectId) => lastNumber(domain, project);
  const statusOf = (id: string) => transact((work) => getEvent(work, projectId, id));
  /** The notes that dead processes have left. */
  const left = (): Promise<string> => readFile(join(dir.path, "in-hand-left.jsonl"), "utf8");

  it("are left by claims with those behind them, and run apart in their order; others go on", async () => {
    const other = await aProject();
    await track(projectId, user(), 2);
    await diesWith(await waiting());
    await track(projectId, user(), 3);
    await track(other, user(other), 2);
    const hand = await aProcess();

    const done = await claim(hand);
    assert.equal(done.events, 2);
    assert.deepEqual(done.again, [], "nothing is to be claimed before the suspects were run");
    assert.deepEqual(await xpOf(domain, other), { [user(other)]: 2 });
    const [first, second, third] = await waiting();
    assert.deepEqual(done.suspects, [first, second]);

    assert.equal((await processSuspects(options(hand), [second!])).events, 0, "it is not its turn");
    assert.equal((await processSuspects(options(hand), [first!])).events, 1);
    assert.equal((await processSuspects(options(hand), [second!])).events, 1);
    assert.deepEqual(
      await waiting(),
      (await waiting()).filter(({ seq }) => seq >= third!.seq),
    );
    await settle(hand);
    assert.deepEqual(hand.dead, [], "nothing of theirs waits any more");
    assert.deepEqual((await claim(hand)).suspects, []);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 5 });
    assert.equal(await lastOf(), 3);
    assert.deepEqual(failures, []);
    assert.equal(await left(), "", "nor is it kept");
  });

  it("are run in halves of what was in hand, until each is alone", async () => {
    await track(projectId, user(), 4);
    const all = await waiting();
    const sizes: number[] = [];
    for (let together = all; together.length > 1;) {
      await diesWith(together);
      together = (await aProcess()).groupOf(all, 100);
      sizes.push(together.length);
      assert.ok(sizes.length < 5, `groups of ${sizes.join(", ")}`);
    }
    assert.deepEqual(sizes, [2, 1]);
  });

  it("count no try where there were several, however often that happens", async () => {
    await track(projectId, user(), 2);
    for (let n = 0; n < 6; n++) {
      await diesWith(await waiting());
      await settle(await aProcess());
    }
    assert.deepEqual(
      (await waiting()).map(({ attempts }) => attempts),
      [0, 0],
    );
    assert.deepEqual(failures, []);
  });

  it("count no try where their claim still waited for locks, however often that happens", async () => {
    await track(projectId, user(), 1);
    for (let n = 0; n < 6; n++) {
      (await aProcess()).open().take(await waiting());
      const hand = await aProcess();
      await settle(hand);
      assert.equal((await claim(hand)).suspects.length, 1);
    }
    assert.deepEqual(
      (await waiting()).map(({ attempts }) => attempts),
      [0],
    );
    assert.deepEqual(failures, []);
  });

  it("are noted as evaluated only where they run alone, and no longer once they are", async () => {
    await track(projectId, user(), 1);
    const hand = await aProcess();
    const seen: string[] = [];
    const watched = Object.assign(Object.create(hand) as InHand, {
      open: () => {
        const claimed = hand.open();
        return {
          ...claimed,
          evaluate: () => {
            seen.push("evaluate");
            claimed.evaluate();
          },
          evaluated: () => {
            seen.push("evaluated");
            claimed.evaluated();
          },
        };
      },
      sift: (events: readonly QueuedEvent[]) => hand.sift(events),
    });
    await claim(watched);
    assert.equal(await lastOf(), 1);
    assert.deepEqual(seen, [], "no suspect");
    await track(projectId, user(), 1);
    assert.equal((await processSuspects(options(watched), await waiting())).events, 1);
    assert.deepEqual([...new Set(seen)], ["evaluate", "evaluated"]);
  });

  it("count no try where two claims of the process had one each", async () => {
    await track(projectId, user(), 2);
    const [one, two] = await waiting();
    await diesWith([one!], [two!]);
    const hand = await aProcess();
    await settle(hand);
    assert.deepEqual(failures, []);
    assert.equal((await claim(hand)).suspects.length, 2);
  });

  it("are FAILED after the tries in which they were alone, with what a retry by hand needs", async () => {
    const [guilty] = await track(projectId, user(), 1);
    const attempts: number[] = [];
    for (let n = 0; n < 4; n++) {
      const [event] = await waiting();
      attempts.push(event!.attempts);
      const before = await aProcess();
      assert.ok(before.mayRun(event!));
      evaluate(before, [event!]);
      const hand = await aProcess();
      assert.equal(hand.mayRun(event!), false, "its death is to be counted first");
      // Several processes may find the dead one at the same time.
      await settle(hand);
      await settle(hand);
      aheadMs += MINUTE_MS + 1;
      await transact(requeueDueEvents);
      if (n < 3) assert.deepEqual((await claim(hand)).suspects, await waiting(), "it stays a suspect");
    }
    assert.deepEqual(attempts, [0, 1, 2, 3]);
    assert.equal(failures.length, 4);
    const { status, error } = await statusOf(guilty!);
    assert.equal(status, "FAILED");
    assert.match(error!, /^PROCESS_DIED: /);
    const hand = await aProcess();
    await settle(hand);
    assert.deepEqual(hand.dead, []);

    await transact((work) => retryEvent(work, projectId, guilty!));
    await claim(hand);
    assert.equal((await statusOf(guilty!)).status, "PROCESSED");
  });

  it("count nothing when the commit came before the death", async () => {
    await track(projectId, user(), 1);
    const events = await waiting();
    assert.equal(await processParts(options(await aProcess()), [PART]), 1);
    await diesWith(events);
    const hand = await aProcess();
    await settle(hand);
    assert.deepEqual(hand.dead, []);
    assert.deepEqual(failures, []);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 1 });
  });

  it("are nobody's after a process that ended in order", async () => {
    await track(projectId, user(), 1);
    const hand = await aProcess();
    hand.open().take(await waiting());
    await hand.close();
    assert.deepEqual((await aProcess()).dead, []);
  });

  it("are forgotten where the note is damaged", async () => {
    await track(projectId, user(), 1);
    await writeFile(join(dir.path, "in-hand.json"), `{"stretches":[{"part":5,"projectId":"x`);
    await writeFile(join(dir.path, "in-hand-left.jsonl"), `null\n{"stretches":7}\n`);
    const hand = await aProcess();
    assert.deepEqual(hand.dead, []);
    await claim(hand);
    assert.deepEqual(await xpOf(domain, projectId), { [user()]: 1 });
    assert.equal(await left(), "");
  });

  it("are found by the id directly before their project's", () => {
    assert.equal(idBefore("00000000-0000-0000-0001-000000000000"), "00000000-0000-0000-0000-ffffffffffff");
    assert.equal(idBefore("ffffffff-ffff-4fff-8fff-ffffffffff00"), "ffffffff-ffff-4fff-8fff-fffffffffeff");
  });
});
