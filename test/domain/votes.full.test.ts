import assert from "node:assert/strict";
import fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { processAll, publish, xpOf } from "../support/domain/rule-projects.ts";
import { findingsOf, takeBack } from "../support/reverts/histories.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const DAY_MS = 86_400_000;
const MAX = 200;
const UP = 5;
const DOWN = -2;
const ACCEPT = 15;

type Vote = { user: string; type: "vote" | "accept"; value: 1 | -1; at: Date };

/** Votes on the posts of players, of whom few get most, in the order of time, over some days. */
const votesOf = (
  seed: number,
  { votes, players, days }: Record<"votes" | "players" | "days", number>,
): Vote[] => {
  // Doubles of fast-check are mostly tiny ones.
  const share = fc.noBias(fc.integer({ min: 0, max: 999_999 })).map((n) => n / 1_000_000);
  const draw = fc.sample(share, { seed, numRuns: votes * 4 });
  const next = () => draw.pop()!;
  const start = Math.floor(Date.now() / DAY_MS - days - 1) * DAY_MS;
  return Array.from({ length: votes }, (): Vote => {
    const isAccept = next() < 0.1;
    return {
      user: `u${Math.floor(next() ** 3 * players)}`,
      type: isAccept ? "accept" : "vote",
      value: next() < 0.6 ? 1 : -1,
      at: new Date(start + Math.floor(next() * days * DAY_MS)),
    };
  }).toSorted((a, b) => a.at.getTime() - b.at.getTime());
};

type Counts = "GAINS" | "NET";
type Player = { xp: number; days: Map<number, number> };

/** The same in a plain loop: what each event has changed, and what players have. */
const createLoop = (counts: Counts) => {
  const players = new Map<string, Player>();
  const playerOf = (user: string): Player => {
    const player = players.get(user) ?? { xp: 0, days: new Map() };
    players.set(user, player);
    return player;
  };
  const countOf = (change: number): number => (counts === "NET" ? change : Math.max(0, change));
  return {
    add: ({ user, type, value, at }: Vote): number => {
      const player = playerOf(user);
      const day = Math.floor(at.getTime() / DAY_MS);
      const counted = player.days.get(day) ?? 0;
      let change = ACCEPT;
      if (type === "vote") {
        change = value > 0 ? Math.max(0, Math.min(UP, MAX - counted)) : Math.max(DOWN, -player.xp);
        player.days.set(day, counted + countOf(change));
      }
      player.xp += change;
      return change;
    },
    takeBack: ({ user, type, at }: Vote, change: number): void => {
      const player = playerOf(user);
      const day = Math.floor(at.getTime() / DAY_MS);
      player.xp = Math.max(0, player.xp - change);
      if (type === "vote") player.days.set(day, (player.days.get(day) ?? 0) - countOf(change));
    },
    xp: () => Object.fromEntries([...players].map(([user, { xp }]) => [user, xp])),
  };
};

const eventOf = ({ user, type, value, at }: Vote) => ({ user, type, at, properties: { value } });

describe("votes as XP", () => {
  const { domain } = memoryDomain();

  const aVotesProject = async (counts: Counts): Promise<string> => {
    const projectId = await domain.addProject();
    const on = (type: string): Json => ({ triggers: [{ kind: "EVENT", eventTypes: [type] }] });
    const steps = [
      [-1, DOWN],
      [1, UP],
    ];
    const amount = { op: "table", input: { ref: "event.properties.value" }, steps };
    const caps = [{ asset: "xp", max: MAX, window: "DAY", counts }];
    const actions = [{ type: "grant_xp", amount }];
    await publish(domain, projectId, { key: "votes", ...on("vote"), actions, limits: { caps } });
    const accepted = [{ type: "grant_xp", amount: ACCEPT }];
    await publish(domain, projectId, { key: "accepts", ...on("accept"), actions: accepted });
    return projectId;
  };
  const send = async (projectId: string, votes: readonly Vote[]): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < votes.length; i += 500)
      ids.push(...(await domain.track(projectId, votes.slice(i, i + 500).map(eventOf))));
    await processAll(domain);
    return ids;
  };

  for (const counts of ["GAINS", "NET"] as const)
    it(`are those of a plain loop, after 300 reverts too, where a cap counts ${counts}`, async () => {
      const projectId = await aVotesProject(counts);
      const loop = createLoop(counts);
      const votes = votesOf(counts === "NET" ? 7 : 5, { votes: 2_500, players: 40, days: 6 });
      const changes = votes.map(loop.add);
      const ids = await send(projectId, votes);
      assert.deepEqual(await xpOf(domain, projectId), loop.xp());
      assert.ok(
        votes.some(({ type, value }, i) => type === "vote" && value > 0 && changes[i]! < UP),
        "the cap was reached",
      );
      assert.ok(votes.some(({ value, type }, i) => type === "vote" && value < 0 && changes[i]! > DOWN));
      const order = fc.sample(
        fc.shuffledSubarray(
          votes.map((_, i) => i),
          { minLength: 300, maxLength: 300 },
        ),
        {
          seed: 3,
          numRuns: 1,
        },
      )[0]!;
      for (const place of order) {
        await takeBack(domain, projectId, ids[place]!);
        loop.takeBack(votes[place]!, changes[place]!);
      }
      assert.deepEqual(await xpOf(domain, projectId), loop.xp());
      // What was taken back has made room, and only that.
      const more = votesOf(11, { votes: 500, players: 40, days: 6 });
      more.forEach(loop.add);
      await send(projectId, more);
      assert.deepEqual(await xpOf(domain, projectId), loop.xp());
      assert.deepEqual(await findingsOf(domain, projectId), []);
    });
});
