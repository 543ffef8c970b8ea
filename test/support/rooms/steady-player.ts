import { setTimeout as delay } from "node:timers/promises";
import type { Room } from "@colyseus/sdk";
import type { Client } from "../http/client.ts";
import { joinOnce } from "./staying.ts";

/** How long a client of the guide waits before it joins again, in ms. */
const AGAIN_MS = 250;

/**
 * A player's client as the guide has it: joins again on any close but 4000, with `lastSeq`, and asks for what
 * is missing after the network was lost.
 */
export class SteadyPlayer {
  /** The stream in the order it was shown, each line once. */
  readonly shown: number[] = [];
  readonly closes: number[] = [];
  readonly refusals: string[] = [];
  /** Of each time it was away, in ms. */
  readonly awayMs: number[] = [];
  room: Room | undefined;
  /** Between two lines that came one after the other, in ms. */
  longestGapMs = 0;
  #shownAtMs = 0;
  readonly #api: Client;
  readonly #token: string;
  #isOver = false;

  constructor(api: Client, token: string) {
    this.#api = api;
    this.#token = token;
  }

  get lastSeq(): number {
    return this.shown.at(-1) ?? 0;
  }

  /** Resolves when it is in, however often it has to try. */
  async play(): Promise<this> {
    const sinceMs = performance.now();
    while (!this.#isOver) {
      try {
        this.#follow(await joinOnce(this.#api, this.#token, "player", { lastSeq: this.lastSeq }));
        this.awayMs.push(performance.now() - sinceMs);
        break;
      } catch (error) {
        this.refusals.push(String(error));
        await delay(AGAIN_MS);
      }
    }
    return this;
  }

  /** Leaves; a room that is just then away never answers that. */
  stop(): void {
    this.#isOver = true;
    if (!this.room) return;
    this.room.reconnection.enabled = false;
    void this.room.leave().catch(() => undefined);
  }

  #follow(room: Room): void {
    this.room = room;
    room.onMessage("*", (_name: string | number, { seq }: { seq?: number }) => {
      if (seq === undefined || seq <= this.lastSeq) return;
      if (seq === this.lastSeq + 1) this.#show(seq);
      else this.#resync(room);
    });
    room.onReconnect(() => this.#resync(room));
    room.onLeave((code: number) => {
      this.closes.push(code);
      if (code !== 4000 && !this.#isOver) void this.play();
    });
  }

  #show(seq: number): void {
    this.shown.push(seq);
    const nowMs = performance.now();
    if (this.#shownAtMs > 0) this.longestGapMs = Math.max(this.longestGapMs, nowMs - this.#shownAtMs);
    this.#shownAtMs = nowMs;
  }

  /** At most once a second, so a refusal is followed by another try. */
  #resync(room: Room): void {
    room.request("session.resync", { lastSeq: this.lastSeq }).catch(async () => {
      await delay(AGAIN_MS);
      if (this.room === room && room.connection.isOpen) this.#resync(room);
    });
  }
}
