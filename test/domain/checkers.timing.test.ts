import assert from "node:assert/strict";
import { type AppendHistory, appendViolations, type Message, type Send } from "../support/checkers/append.ts";
import { History, type Operation, Refused } from "../support/checkers/history.ts";
import { type BoardHistory, leaderboardViolations, type Submit } from "../support/checkers/leaderboard.ts";
import { type LobbyHistory, lobbyViolations, type Seat, type Sight } from "../support/checkers/lobby.ts";
import { randomOf } from "../support/seed.ts";

type Times = { from: number; to: number };
const ok = <V, R>(op: string, value: V, result: R, { from, to }: Times): Operation<V, R> => ({
  process: "client",
  op,
  value,
  invokedMs: from,
  endedMs: to,
  outcome: "ok",
  result,
});
const info = <V>(op: string, value: V, from: number): Operation<V, never> => ({
  process: "client",
  op,
  value,
  invokedMs: from,
  endedMs: Infinity,
  outcome: "info",
});

/** Holds a checker against histories of which each has one fault, and against one that has none. */
const finds = <H>(check: (history: H) => string[], good: H, bad: Record<string, [H, RegExp]>): void => {
  it("finds nothing where nothing is wrong", () => assert.deepEqual(check(good), []));
  for (const [what, [history, pattern]] of Object.entries(bad))
    it(`finds ${what}`, () => {
      const found = check(history);
      assert.ok(
        found.some((line) => pattern.test(line)),
        `found: ${found.join("; ")}`,
      );
    });
};

describe("checkers of histories", () => {
  describe("of lobbies", () => {
    const join = (playerId: string, lobbyId: string, times: Times) =>
      ok("join", { playerId, mode: "duel" }, { lobbyId, maxPlayers: 2 }, times);
    const seat = (playerId: string, lobbyId: string): Seat => ({ playerId, mode: "duel", lobbyId });
    const leave = (playerId: string, lobbyId: string, times: Times) =>
      ok("leave", seat(playerId, lobbyId), { lobbyId, maxPlayers: 2 }, times);
    const start = (times: Times) =>
      ok("start", { ...seat("ada", "a"), isImmediate: true }, { lobbyId: "a", maxPlayers: 2 }, times);
    const look = (version: number, rest: Partial<Sight> = {}, content = `v${version}`): Sight => ({
      process: "ada",
      via: "room",
      sinceMs: 10 * version,
      atMs: 10 * version,
      ...rest,
      lobby: { lobbyId: "a", version, status: "OPEN", matchId: null, maxPlayers: 2, players: [], content },
    });
    const told = { session: "ada 1", lobbyId: "a", matchId: "m" };
    const good: LobbyHistory = {
      operations: [
        join("ada", "a", { from: 0, to: 1 }),
        join("bob", "a", { from: 0, to: 2 }),
        leave("bob", "a", { from: 3, to: 9 }),
        join("cy", "a", { from: 4, to: 5 }),
        join("bob", "b", { from: 4, to: 6 }),
        start({ from: 6, to: 7 }),
      ],
      sights: [look(1), look(2), look(2, { process: "bob", atMs: 90 }), look(3)],
      told: [told, { ...told, session: "bob 1" }],
      matches: [{ lobbyId: "a", matchId: "m" }],
    };
    const without = good.operations.filter(({ op }) => op !== "leave");
    const api = { via: "api", process: "bob", sinceMs: 21, atMs: 22 } as const;
    const overfull = look(4);
    const full = { ...overfull, lobby: { ...overfull.lobby, players: ["ada", "bob", "cy"] } };
    finds(lobbyViolations, good, {
      "more players than seats": [{ ...good, operations: without }, /3 players hold 2 seats/],
      "a seat of a player in two lobbies": [{ ...good, operations: without }, /player bob: seats of duel/],
      "a lobby that shows more players than seats": [{ ...good, sights: [full] }, /3 players of 2/],
      "a version that means two things": [
        { ...good, sights: [look(1), look(1, { process: "bob" }, "other")] },
        /at version 1: ada saw by the room v1 .*, bob saw by the room other/,
      ],
      "a room that goes back": [{ ...good, sights: [look(2), look(1, { atMs: 30 })] }, /shown 1 by the room/],
      "an answer that is older than what was seen": [
        { ...good, sights: [look(2), look(1, api)] },
        /shown 1 by the api after 2/,
      ],
      "a match that nobody started": [
        { ...good, matches: [...good.matches, { lobbyId: "a", matchId: "n" }] },
        /2 matches of 1 to 1 starts/,
      ],
      "a start without a match": [{ ...good, matches: [], told: [] }, /0 matches of 1 to 1/],
      "a start that is told twice": [{ ...good, told: [told, told] }, /heard of match m 2 times/],
      "a match that is not stored": [{ ...good, told: [{ ...told, matchId: "x" }] }, /a x was shown/],
    });
  });

  describe("of messages", () => {
    const message = (seq: number, content = `c${seq}`): Message => ({
      seq,
      id: `id of ${content}`,
      content,
      senderId: "ada",
    });
    const send = ({ content, seq, id }: Message, times: Times): Send =>
      ok("send", { content, senderId: "ada" }, { seq, id }, times);
    const [one, two, three] = [message(1), message(2), message(3)];
    const session = (...seqs: Message[]) =>
      seqs.map((shown, i) => ({ isHistory: i === 0, messages: [shown] }));
    const good: AppendHistory = {
      sends: [
        send(one, { from: 0, to: 1 }),
        info("send", { content: "c2", senderId: "ada" }, 2),
        send(two, { from: 5, to: 6 }),
        info("send", { content: "c3", senderId: "ada" }, 3),
        info("send", { content: "lost", senderId: "ada" }, 3),
      ],
      stored: [one, two, three],
      readers: [{ name: "bob", sessions: [session(one, two), session(two, three)] }],
    };
    const swapped = [{ name: "bob", sessions: [session(one, message(2, "c3"), message(3, "c2"))] }];
    const lost = [send(message(4), { from: 0, to: 1 })];
    finds(appendViolations, good, {
      "a gap in seq": [{ ...good, stored: [one, three] }, /place 2 has seq 3/],
      "two orders": [{ ...good, readers: swapped }, /bob saw c3 .* at 2, where there is c2/],
      "a lost acknowledgement": [
        { ...good, sends: [...good.sends, ...lost] },
        /acknowledged as 4, .*nothing/,
      ],
      "a message that is there twice": [
        { ...good, stored: [one, two, message(3, "c2")] },
        /is there 2 times/,
      ],
      "a message that nobody sent": [{ ...good, stored: [one, two, message(3, "?")] }, /was never sent/],
      "a message that a reader never saw": [
        { ...good, readers: [{ name: "bob", sessions: [session(one, two)] }] },
        /bob never saw 3/,
      ],
      "a session that leaves one out": [
        { ...good, readers: [...good.readers, { name: "cy", sessions: [session(one, three, two)] }] },
        /cy was shown 3 right after 1/,
      ],
      "an order against time": [
        { ...good, sends: [...good.sends, send(one, { from: 50, to: 51 })].slice(1) },
        /c2 was answered before c1 began/,
      ],
    });
  });

  describe("of leaderboards", () => {
    const submit = (playerId: string, score: number, times: Times): Submit =>
      ok("submit", { playerId, score, key: `${playerId} ${times.from}` }, { score }, times);
    const place = (rank: number, playerId: string, score: number) => ({ rank, playerId, score });
    const best: BoardHistory = {
      operator: "BEST",
      ties: "EARLIEST",
      submits: [
        submit("bob", 5, { from: 0, to: 1 }),
        submit("ada", 5, { from: 10, to: 11 }),
        submit("cy", 2, { from: 0, to: 1 }),
        info("submit", { playerId: "cy", score: 3, key: "k" }, 20),
      ],
      ranked: [place(1, "bob", 5), place(2, "ada", 5), place(3, "cy", 2)],
      views: [],
    };
    const shared = [place(1, "bob", 5), place(1, "ada", 5), place(3, "cy", 2)];
    const sum: BoardHistory = { ...best, operator: "SUM", ties: "SHARED", ranked: shared };
    const view = (places: typeof shared) => [{ name: "pages", places }];
    const late = [place(1, "ada", 5), place(2, "bob", 5), place(3, "cy", 2)];
    const fallen = [submit("bob", 4, { from: 30, to: 31 })];
    finds(leaderboardViolations, best, {
      "a wrong rank in a view": [{ ...best, views: view(shared) }, /pages shows/],
      "a wrong rank in the database": [{ ...best, ranked: shared }, /place 2 is ranked 1, not 2/],
      "who came later ahead": [{ ...best, ranked: late }, /bob had 5 before ada/],
      "a score that falls": [{ ...best, submits: [...best.submits, ...fallen] }, /fell from 5 to 4/],
      "a lost score": [{ ...best, ranked: best.ranked.slice(0, 2) }, /cy has undefined, not one of 2,3/],
    });
    finds(
      leaderboardViolations,
      {
        ...sum,
        ranked: [...shared.slice(0, 2), place(3, "cy", 5)].slice(0, 2),
        submits: sum.submits.slice(0, 2),
      },
      {
        "a rank that equals do not share": [{ ...sum, ranked: best.ranked }, /place 2 is ranked 2, not 1/],
        "a score that counted twice": [
          { ...sum, ranked: [place(1, "bob", 10), ...best.ranked.slice(1)] },
          /bob has 10, not one of 5/,
        ],
        "what nobody answered counted wrong": [
          { ...sum, ranked: [...shared.slice(0, 2), place(3, "cy", 4)] },
          /cy has 4, not one of 2,5/,
        ],
      },
    );
  });

  it("are fed by a recorder that tells what was refused from what nobody knows", async () => {
    const history = new History();
    const run = (attempt: () => Promise<number>) => history.run(["a", "op"], 1, attempt, { timeoutMs: 5 });
    const outcomes = await Promise.all([
      run(() => Promise.resolve(7)),
      run(() => Promise.reject(new Refused("FULL"))),
      run(() => Promise.reject(new Error("socket"))),
      run(() => new Promise(() => undefined)),
    ]);
    assert.deepEqual(
      outcomes.map(({ outcome, endedMs, result }) => [outcome, endedMs < Infinity, result]),
      [
        ["ok", true, 7],
        ["fail", true, undefined],
        ["info", false, undefined],
        ["info", false, undefined],
      ],
    );
    assert.equal(history.of("op").length, 4);
  });

  it("meet the same choices again under the same seed, whoever else chooses", () => {
    const take = (seed: string) => {
      const { next, fork } = randomOf(seed);
      return [next(), fork("one").between(1, 1_000), next(), fork("two").shuffle([1, 2, 3, 4]).join()];
    };
    assert.deepEqual(take("7"), take("7"));
    assert.notDeepEqual(take("7"), take("8"));
    const all = randomOf("7");
    const first = all.fork("one").next();
    all.next();
    assert.equal(all.fork("one").next(), first);
  });
});
