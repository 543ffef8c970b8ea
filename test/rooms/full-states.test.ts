import assert from "node:assert/strict";
import { type Client, ClientState } from "@colyseus/core";
import { Decoder, StateView } from "@colyseus/schema";
import fc from "fast-check";
import { type BoardLine, BoardPlace, LeaderboardState, syncRows } from "../../src/rooms/leaderboard-room.ts";
import { SafeSerializer } from "../../src/rooms/safe-serializer.ts";
import { cases } from "../support/properties.ts";

const lineOf = (player: number, score: number): BoardLine => ({
  rank: player + 1,
  playerId: `p${player}`,
  externalUserId: `e${player}`,
  displayName: "",
  score,
});

/** What a real socket does with frames: it decodes them. */
class Watcher {
  state: ClientState = ClientState.JOINING;
  readonly view = new StateView();
  readonly place = new BoardPlace();
  readonly shown = new LeaderboardState();
  readonly #decoder = new Decoder(this.shown);

  raw(bytes: Uint8Array): void {
    this.#decoder.decode(bytes, { offset: 1 });
  }
}

/** A room of a board without its socket server: the same state and serializer. */
class Board {
  readonly state = new LeaderboardState();
  readonly watchers = new Map<string, Watcher>();
  readonly #serializer = new SafeSerializer(256, (but) => {
    if (but) but.state = ClientState.JOINING;
    this.patch();
    if (but) but.state = ClientState.JOINED;
  });
  #joined = 0;

  constructor() {
    this.#serializer.reset(this.state);
  }

  patch(): void {
    this.#serializer.applyPatches([...this.watchers.values()] as unknown as Client[], this.state);
  }

  top(lines: readonly BoardLine[]): void {
    syncRows(this.state.top, lines);
  }

  join(lines: readonly BoardLine[]): void {
    const [id, watcher] = [`s${this.#joined++}`, new Watcher()];
    this.watchers.set(id, watcher);
    this.#serializer.unsent(() => {
      this.state.me.set(id, watcher.place);
      watcher.view.add(watcher.place);
      syncRows(watcher.place.rows, lines);
    });
  }

  /** The client says that it has joined, and gets the full state. */
  confirm(n: number): void {
    const waiting = [...this.watchers.values()].filter(({ state }) => state === ClientState.JOINING);
    const watcher = waiting[n % waiting.length];
    if (!watcher) return;
    watcher.state = ClientState.JOINED;
    watcher.raw(this.#serializer.getFullState(watcher as unknown as Client));
  }

  place(n: number, lines: readonly BoardLine[]): void {
    const watcher = [...this.watchers.values()][n % this.watchers.size];
    if (!watcher) return;
    syncRows(watcher.place.rows, lines);
    this.#serializer.touch(watcher.view);
  }

  leave(n: number): void {
    const id = [...this.watchers.keys()][n % this.watchers.size];
    if (id === undefined) return;
    this.watchers.get(id)!.view.dispose();
    this.watchers.delete(id);
    this.#serializer.unsent(() => this.state.me.delete(id));
  }
}

const number = fc.oneof(fc.nat(100), fc.double({ noNaN: true, noDefaultInfinity: true }));
const lines = fc
  .array(fc.tuple(fc.nat(5), number), { maxLength: 5 })
  .map((all) => all.map((one) => lineOf(...one)));
const n = fc.nat(3);
const step = fc.oneof(
  fc.record({ what: fc.constant("top" as const), lines }),
  fc.record({ what: fc.constant("join" as const), lines }),
  fc.record({ what: fc.constant("place" as const), n, lines }),
  fc.record({ what: fc.constantFrom("confirm" as const, "leave" as const), n }),
  fc.constant({ what: "patch" as const }),
);

describe("full states and patches", () => {
  it("leave everybody with what the server has, whenever they join, to the last digit", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 20 }), (steps) => {
        const board = new Board();
        for (const one of steps) {
          if (one.what === "top") board.top(one.lines);
          else if (one.what === "join") board.join(one.lines);
          else if (one.what === "place") board.place(one.n, one.lines);
          else if (one.what === "patch") board.patch();
          else board[one.what](one.n);
        }
        board.patch();
        for (const { state, shown, place } of board.watchers.values()) {
          if (state !== ClientState.JOINED) continue;
          assert.deepEqual(shown.top.toJSON(), board.state.top.toJSON());
          assert.deepEqual(
            [...shown.me.values()].map((own) => own.rows.toJSON()),
            [place.rows.toJSON()],
          );
        }
      }),
      { numRuns: cases(10_000) },
    );
  });
});
