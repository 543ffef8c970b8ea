import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { aPlayer, matchmake, type Player, range } from "../rooms/sdk.ts";
import { must } from "../http/client.ts";
import { eventually, eventuallyHolds } from "../eventually.ts";
import { aLessonRule } from "../rules/rules-api.ts";
import { joinOnce, Staying } from "../rooms/staying.ts";
import { SteadyPlayer } from "../rooms/steady-player.ts";
import type { WebCluster } from "./two-servers.ts";
import { type Receiver, startReceiver } from "../webhooks/receiver.ts";
import { pluck } from "../pluck.ts";

const PLAYERS = 8;
const EVENT_EVERY_MS = 30;

/**
 * A game that goes on while something fails: events without end, players in rooms of every kind, a webhook.
 * Every event gives its player 1 XP, which is a line of the player's stream, a score and a delivery.
 */
export class FaultyGame {
  readonly cluster: WebCluster;
  readonly receiver: Receiver;
  /** Answers to events, by status. */
  readonly statuses = new Map<number, number>();
  /** Answered with 200, by player. */
  readonly accepted: number[] = range(1, PLAYERS).map(() => 0);
  longestAnswerMs = 0;
  players: Player[] = [];
  clients: SteadyPlayer[] = [];
  lobby: Staying[] = [];
  watchers: Staying[] = [];
  lobbyId = "";
  channelId = "";
  #isOver = false;
  #load: Promise<void> | undefined;

  constructor(cluster: WebCluster, receiver: Receiver) {
    this.cluster = cluster;
    this.receiver = receiver;
  }

  async start(): Promise<this> {
    const { api, tenant } = this.cluster;
    const { key, token } = tenant;
    const make = async (path: string, body: unknown) => must(await api.post(path, body, { key }), 201);
    await make("/api/v1/leaderboards", { key: "top", name: "Top", metric: { source: "XP" } });
    const { id } = await make("/api/v1/rules", aLessonRule());
    must(await api.post(`/api/v1/rules/${id}/publish`, {}, { key }), 200);
    this.channelId = (await make("/api/v1/chat/channels", { kind: "PROJECT", key: "all", name: "All" })).id;
    const hook = { url: this.receiver.url, events: ["player.xp_granted"] };
    must(await api.post("/api/v1/webhooks", hook, { token }), 201);
    this.players = await Promise.all(range(1, PLAYERS).map(() => aPlayer(api, key)));
    this.clients = await Promise.all(this.players.map((one) => new SteadyPlayer(api, one.token).play()));
    const create = { mode: "duel", maxPlayers: 4, settings: { graceSeconds: 30 } };
    const first = await this.#stay(0, "lobby", { create });
    this.lobbyId = await eventually(() => first.room?.state.id as string);
    this.lobby = [first, await this.#stay(1, "lobby", { lobbyId: this.lobbyId })];
    this.watchers = [
      await this.#stay(2, "chat", { channelId: this.channelId }),
      await this.#stay(3, "leaderboard", { leaderboardKey: "top" }),
      await this.#stay(4, "lobbies", {}),
    ];
    this.#load = this.#play();
    return this;
  }

  /** Events after this call are processed within the time, whether or not anybody hears of it. */
  isProcessed(timeoutMs: number): Promise<void> {
    return this.#holds("events are processed", timeoutMs, (wanted) => this.#isCounted(wanted));
  }

  /** Events after this call are processed, told and delivered within the time. */
  isWell(timeoutMs: number): Promise<void> {
    return this.#holds("all is well", timeoutMs, async (wanted) => {
      await this.#isCounted(wanted);
      for (const [i, { lastSeq }] of this.clients.entries())
        assert.ok(lastSeq > wanted[i]!, `player ${i} was shown ${lastSeq} of ${wanted[i]} and more`);
      const due = wanted.reduce((sum, count) => sum + count, 0);
      assert.ok(this.delivered.size >= due, `${this.delivered.size} of ${due} deliveries`);
      for (const place of [...this.lobby, ...this.watchers])
        assert.ok(place.isOpen, `a socket is away: ${place.trail.slice(-3).join(", ")}`);
    });
  }

  /** New players can join rooms within the time. */
  async joinsAgain(timeoutMs: number): Promise<void> {
    const { api, tenant } = this.cluster;
    const isJoined = async (): Promise<boolean> => {
      const { token } = await aPlayer(api, tenant.key);
      return (await matchmake(api, "joinOrCreate/player", { token })).status === 200;
    };
    await eventually(isJoined, { timeoutMs, label: "rooms are made" });
  }

  /** Ends the load and holds everything that a client sees against what the API says. */
  async settle(timeoutMs: number): Promise<void> {
    this.#isOver = true;
    await this.#load;
    await eventuallyHolds(() => this.#agrees(), { timeoutMs, label: "sockets show what the API says" });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#load;
    for (const client of this.clients) client.stop();
    for (const place of [...this.lobby, ...this.watchers]) place.stop();
    await this.receiver.close();
  }

  get delivered(): Set<string> {
    return new Set(
      this.receiver.received.map(({ body }) => (JSON.parse(body.toString()) as { id: string }).id),
    );
  }

  /** Waits for an event of each player, then for `check` of how many of each were accepted by then. */
  async #holds(label: string, timeoutMs: number, check: (wanted: number[]) => Promise<void>): Promise<void> {
    const before = [...this.accepted];
    const isAccepted = () => this.accepted.every((count, i) => count > before[i]!);
    await eventually(isAccepted, { timeoutMs, label: "events" });
    const wanted = [...this.accepted];
    await eventuallyHolds(() => check(wanted), { timeoutMs, label });
  }

  async #isCounted(wanted: readonly number[]): Promise<void> {
    const { api, tenant } = this.cluster;
    for (const [i, { playerId }] of this.players.entries()) {
      const { body } = await api.get(`/api/v1/players/${playerId}`, { key: tenant.key });
      assert.ok(body.xp >= wanted[i]!, `XP of player ${i}: ${body.xp} of ${wanted[i]}`);
    }
  }

  async #agrees(): Promise<void> {
    const { api, tenant } = this.cluster;
    const get = async (path: string) => must(await api.get(`/api/v1${path}`, { key: tenant.key }), 200);
    for (const [i, { playerId }] of this.players.entries()) {
      const { xp, seq } = await get(`/players/${playerId}`);
      assert.equal(xp, this.accepted[i], `each accepted event of player ${i} counts once`);
      assert.deepEqual(this.clients[i]!.shown, range(1, seq));
    }
    const total = this.accepted.reduce((sum, count) => sum + count, 0);
    assert.equal(this.delivered.size, total, "each grant was delivered");
    const { members } = await get(`/lobbies/${this.lobbyId}`);
    assert.deepEqual(
      pluck(members, "playerId", "status"),
      this.players.slice(0, 2).map(({ playerId }) => [playerId, "JOINED"]),
    );
    for (const { room, trail } of this.lobby) {
      assert.ok(room, `a member's socket is gone: ${trail.join()}`);
      assert.equal(room.state.members.size, 2);
    }
    const { data } = await get("/leaderboards/top/entries?limit=8");
    const top = [...this.watchers[1]!.room!.state.top] as { playerId: string; score: number }[];
    assert.deepEqual(pluck(top.slice(0, 8), "playerId", "score"), pluck(data, "playerId", "score"));
  }

  async #stay(i: number, name: string, options: object): Promise<Staying> {
    const { token } = this.players[i]!;
    // Who made the lobby comes back to it, and makes no other.
    const wish = (): object => (name === "lobby" && this.lobbyId ? { lobbyId: this.lobbyId } : options);
    const join = () => joinOnce(this.cluster.api, token, name, wish());
    return new Staying({ join, listen: () => undefined }).enter();
  }

  async #play(): Promise<void> {
    const { api, tenant } = this.cluster;
    for (let n = 0; !this.#isOver; n++) {
      const i = n % PLAYERS;
      const { externalUserId } = this.players[i]!;
      const event = { externalUserId, eventType: "lesson.completed", idempotencyKey: randomUUID() };
      const startMs = performance.now();
      const { status } = await api.post("/api/v1/events", event, { key: tenant.key });
      this.longestAnswerMs = Math.max(this.longestAnswerMs, performance.now() - startMs);
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      if (status === 200) this.accepted[i]!++;
      await delay(EVENT_EVERY_MS);
    }
  }
}

export const startFaultyGame = async (cluster: WebCluster): Promise<FaultyGame> =>
  new FaultyGame(cluster, await startReceiver()).start();
