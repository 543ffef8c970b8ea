import assert from "node:assert/strict";
import fc from "fast-check";
import { PARTITIONS } from "../../src/domain/kernel/ids.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import {
  ALL_PARTS,
  claimParts,
  memoryDomain,
  processParts,
  publish,
  userIn,
} from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";

describe("a claim of several partitions", () => {
  let projectId: string;
  const onError = (error: unknown): never => assert.fail(String(error));

  const { domain } = memoryDomain();
  beforeEach(async () => {
    projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "append",
      actions: [
        { type: "grant_xp", amount: 1 },
        { type: "update_player", set: { last: { $ref: "event.properties.n" } } },
      ],
    });
  });

  /** `sizes` says how many events wait in each partition, from 0 on, numbered in their order. */
  const queue = async (sizes: readonly number[], project = projectId): Promise<void> => {
    const events = sizes.flatMap((size, part) =>
      Array.from({ length: size }, (_, n) => ({ user: userIn(project, part), properties: { n: n + 1 } })),
    );
    if (events.length > 0) await domain.track(project, events);
  };
  const options = () => ({ transact: domain.transact, plans: createPlanCache(), claimLimit: 10, onError });
  const claim = async (claimTogether: number) => {
    const left: PartitionCursor[] = [];
    const onLeft = (places: readonly PartitionCursor[]): void => void left.push(...places);
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    const done = await claimParts({ ...options(), claimTogether, onLeft }, places);
    return { ...done, left: left.map(({ part }) => part) };
  };
  const waiting = async (): Promise<number> => {
    const [row] = await domain.sql<{ n: string }>`select count(*) as n from event_q`;
    return Number(row!.n);
  };

  it("takes partitions in which little waits together, and leaves the others", async () => {
    await queue([2, 0, 3, 1, 4, 5]);
    const done = await claim(6);
    assert.deepEqual(done.parts.toSorted(), [0, 2, 3]);
    assert.equal(done.events, 6);
    assert.deepEqual(done.again, []);
    assert.deepEqual(done.left, ALL_PARTS.slice(4));
    await processParts(options(), ALL_PARTS);
    assert.equal(await waiting(), 0);
  });

  it("takes one partition in which much waits alone, as much as one claim may, and comes again", async () => {
    await queue([25, 2]);
    const done = await claim(6);
    assert.deepEqual(done.parts, [0]);
    assert.equal(done.events, 10);
    assert.deepEqual(done.again, [{ part: 0, afterProject: FIRST_PROJECT }]);
    assert.deepEqual(done.left, ALL_PARTS.slice(1));
    await processParts(options(), ALL_PARTS);
    assert.equal(await waiting(), 0);
  });

  it("applies every event once, each player's in their order, however they lie and are claimed", async () => {
    const sizes = fc.array(fc.oneof(fc.nat(3), fc.nat(30)), { maxLength: PARTITIONS });
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 1, max: 40 }), async (waits, claimTogether) => {
        const project = await domain.addProject();
        const rule = { type: "update_player", set: { last: { $ref: "event.properties.n" } } };
        await publish(domain, project, { key: "k", actions: [{ type: "grant_xp", amount: 1 }, rule] });
        await queue(waits, project);
        const events = await processParts({ ...options(), claimTogether }, ALL_PARTS);
        assert.equal(
          events,
          waits.reduce((sum, size) => sum + size, 0),
        );
        const players = await domain.sql<{ user: string; xp: number; last: number }>`
          select external_user_id as user, xp, (attributes->>'last')::int as last from players
          where project_id = ${project}`;
        const found = new Map(players.map(({ user, xp, last }) => [user, [xp, last]]));
        const expected = waits.flatMap((size, part) =>
          size === 0 ? [] : [[userIn(project, part), [size, size]] as const],
        );
        assert.deepEqual(found, new Map(expected));
      }),
      { numRuns: cases(15) },
    );
  });
});
