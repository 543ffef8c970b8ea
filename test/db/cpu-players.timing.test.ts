import assert from "node:assert/strict";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { CAUSED_ROWS_MAX } from "../../src/domain/revert/read-record.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import {
  type Evaluated,
  FIRST_PLAYER,
  planOf,
  refreshPage,
} from "../../src/domain/economy/segments/pages.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { addDearSegments, addFarReaching, addRichPair } from "../support/rules/big-players.ts";
import { CPU_SLACK } from "../support/cpu.ts";
import { postgresDomain } from "../support/processes/postgres-domain.ts";
import { blockOfUndone } from "../support/domain/undone.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;

/** Players of one page of segments. */
const PLAYERS = 250;

describe("CPU of what changes much at once", () => {
  const { domain } = postgresDomain(2);
  let projectId: string;
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const blockOf = (change: (work: Work) => Promise<unknown>) =>
    blockOfUndone(domain.transact, change, BLOCK_MAX_MS);
  const revert = (eventId: string) => (work: Work) =>
    revertEvent(work, projectId, { eventId, reason: "test", onShortfall: "CLAMP", actor: "test" });

  it("is taken in turns while an event is taken back that has reached hundreds of players", async () => {
    const [others, lines] = [900, 20];
    const eventId = await addFarReaching(domain, projectId, { others, lines });
    const result = await domain.transact(revert(eventId));
    assert.equal(result.players, others + 1);
    assert.equal(result.reversed.currencies["coins"], others * lines);
    projectId = await domain.addProject();
    const again = await addFarReaching(domain, projectId, { others, lines });
    const blockMs = await blockOf(revert(again));
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  });

  it("is bounded by how much an event may have caused to be taken back", async () => {
    const others = 10;
    const eventId = await addFarReaching(domain, projectId, { others, lines: CAUSED_ROWS_MAX / others + 1 });
    await assert.rejects(domain.transact(revert(eventId)), { reason: "EVENT_TOO_LARGE" });
  });

  it("is taken in turns while two players are merged who have thousands of badges and lots", async () => {
    const [targetId, sourceId] = await addRichPair(domain, projectId, { badges: 5_000, lots: 5_000 });
    const strategy = DEFAULT_STRATEGY;
    const blockMs = await blockOf(async (work) => {
      const { summary } = await mergePlayers(work, { projectId, targetId, sourceId, strategy, cause: {} });
      assert.equal(summary.badges.length, 5_000);
    });
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
  });

  it("is taken in turns by a page of players with dear segments, which ends early", async () => {
    await addDearSegments(domain, projectId, { players: PLAYERS, segments: 200, conditions: 30 });
    const look = async (work: Work, after = FIRST_PLAYER): Promise<Evaluated> =>
      refreshPage(work, (await planOf(work, projectId))!, { after, which: "ALL" });
    const blockMs = await blockOf(look);
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
    const first = await domain.transact(look);
    assert(first.evaluated < PLAYERS, `${first.evaluated} players`);
    let [seen, next] = [first.evaluated, first.next];
    while (next !== undefined) {
      const after: string = next;
      const looked = await domain.transact((work) => look(work, after));
      assert.equal(looked.moved, 0);
      seen += looked.evaluated;
      next = looked.next;
    }
    assert.equal(seen, PLAYERS);
  });
});
