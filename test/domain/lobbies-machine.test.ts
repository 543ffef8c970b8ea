import fc from "fast-check";
import assert from "node:assert/strict";
import {
  advanceLobby,
  connectMember,
  createLobby,
  disconnectMember,
  joinLobby,
  LOBBY_COMMANDS,
  type LobbyCommandName,
  NewLobby,
} from "../../src/domain/social/lobbies/commands.ts";
import { ReferenceLobby, type Rules } from "../support/lobbies/reference.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { findDueLobbies } from "../../src/domain/social/lobbies/game.ts";
import type { LobbyActor, LobbyView } from "../../src/domain/kernel/events/social-views.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { assertLobbies } from "../support/lobbies/room.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

const NAMES = ["ada", "bob", "cy", "dan"];
/** Where a change dies at the latest; most have about 8 statements, and get through when it is later. */
const STATEMENTS = 24;

type Step = {
  what:
    | "join"
    | "watch"
    | "leave"
    | "quit"
    | "ready"
    | "unready"
    | "choose"
    | "start"
    | "startNow"
    | "cancel"
    | "kick"
    | "ban"
    | "host"
    | "connect"
    | "disconnect"
    | "beat"
    | "end"
    | "close"
    | "wait";
  /** Who acts, or is acted on; and by whom: a player or, beyond, the server. */
  who: number;
  by: number;
  /** Which of the two lobbies, both of one mode. */
  lobby: number;
  seconds: number;
  crashAt: number;
  isAfter: boolean;
};

const weights: Record<Step["what"], number> = {
  join: 8,
  watch: 2,
  leave: 4,
  quit: 2,
  ready: 9,
  unready: 6,
  choose: 3,
  start: 5,
  startNow: 3,
  cancel: 2,
  kick: 2,
  ban: 1,
  host: 2,
  connect: 3,
  disconnect: 3,
  beat: 3,
  end: 5,
  close: 1,
  wait: 6,
};
const kinds = fc.oneof(
  ...Object.entries(weights).map(([name, weight]) => ({
    weight,
    arbitrary: fc.constant(name as Step["what"]),
  })),
);
const step: fc.Arbitrary<Step> = fc.record({
  what: kinds,
  who: fc.constantFrom(0, 0, 2, 2, 3, 1),
  by: fc.constantFrom(0, 0, 4, 1, 2, 3),
  lobby: fc.constantFrom(0, 0, 0, 0, 1),
  seconds: fc.constantFrom(1, 1, 4, 4, 11, 31, 61, 130, 601),
  crashAt: fc.integer({ min: 1, max: STATEMENTS }),
  isAfter: fc.boolean(),
});
/** What most runs begin with: a second player, a team for each, all ready. */
const gathered = (given: Step): Step[] => {
  const of = (what: Step["what"], who: number): Step => ({ ...given, what, who, by: who, lobby: 0 });
  return [of("join", 2), of("choose", 0), of("choose", 2), of("ready", 0), of("ready", 2)];
};
const programs: fc.Arbitrary<Step[]> = fc
  .record({
    first: step,
    start: fc.constantFrom("none" as const, "start" as const, "startNow" as const),
    isGathered: fc.constantFrom(true, true, true, false),
    steps: fc.array(step, { minLength: 10, maxLength: 30 }),
  })
  .map(({ first, start, isGathered, steps }) => {
    const begins = start === "none" ? [] : [{ ...first, what: start, by: 0, lobby: 0 }];
    return isGathered ? [...gathered(first), ...begins, ...steps] : steps;
  });
const rules: fc.Arbitrary<Rules> = fc.record({
  min: fc.integer({ min: 1, max: 2 }),
  max: fc.integer({ min: 2, max: 3 }),
  countdown: fc.constantFrom(0, 3, 10),
  ready: fc.constantFrom("ALL" as const, "MAJORITY" as const, "HOST" as const),
  auto: fc.boolean(),
  late: fc.boolean(),
  spectators: fc.boolean(),
  rematch: fc.boolean(),
  closeWithHost: fc.boolean(),
  grace: fc.constantFrom(0, 30),
  gameGrace: fc.constantFrom(20, 60),
  gameMax: fc.constantFrom(100, 1_000),
  idle: fc.constantFrom(120, 600),
  manual: fc.boolean(),
});

/** The body of POST /lobbies for a lobby of these rules. */
const inputOf = (of: Rules) =>
  NewLobby.parse({
    mode: "duel",
    minPlayers: of.min,
    maxPlayers: of.max,
    settings: {
      countdownSeconds: of.countdown,
      readyPolicy: of.ready,
      autoStart: of.auto,
      allowLateJoin: of.late,
      allowSpectators: of.spectators,
      allowRematch: of.rematch,
      hostMigration: of.closeWithHost ? "CLOSE" : "OLDEST",
      graceSeconds: of.grace,
      inGameGraceSeconds: of.gameGrace,
      maxGameSeconds: of.gameMax,
      idleSeconds: of.idle,
      ...(of.manual ? { teams: { count: 1, size: of.max } } : {}),
    },
  });

describe("a lobby", () => {
  let nowMs = Date.UTC(2026, 0, 10);

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  const domain = madeOnce(() => openDomain(database, () => new Date(nowMs)));
  const crashing = madeOnce(() => makeCrashing(database));

  type Scene = { projectId: string; players: string[]; ids: string[]; models: ReferenceLobby[] };

  /** Dies at a statement first and then does it; undefined when it is refused. */
  const survive = async <T>(
    { crashAt, isAfter }: Step,
    run: (work: Work) => Promise<T>,
  ): Promise<T | undefined> => {
    let answer: T | undefined;
    const once = async () => {
      answer = await domain.transact(run);
    };
    try {
      if (await crashing.crashAt(crashAt, isAfter, once)) await once();
      return answer;
    } catch (error) {
      if (error instanceof DomainError) return undefined;
      throw error;
    }
  };

  type Order = { name: LobbyCommandName; actor: LobbyActor; body?: object | undefined };
  const command = (scene: Scene, given: Step, { name, actor, body = {} }: Order) => {
    const ref = { projectId: scene.projectId, lobbyId: scene.ids[given.lobby]! };
    const { run, body: schema } = LOBBY_COMMANDS[name];
    return survive(given, (work) => run(work, ref, actor, schema.parse(body) as never));
  };

  /** Results of all who have played the match that a lobby plays. */
  const endBody = async ({ ids }: Scene, { lobby }: Step): Promise<object> => {
    const rows = await domain.sql<{ id: string; players: string[] }>`
      select m.id, m.players from lobby_matches m join lobbies l on l.match_id = m.id
      where l.id = ${ids[lobby]} and m.ended_at is null`;
    const { id, players } = rows[0] ?? { id: ids[lobby]!, players: [ids[lobby]!] };
    return { matchId: id, results: players.map((playerId) => ({ playerId, outcome: "WIN" })) };
  };

  type Deed = { allowed: boolean; done: () => Promise<unknown> };

  // oxlint-disable-next-line complexity -- one line for each kind of step
  const deedOf = async (scene: Scene, given: Step): Promise<Deed> => {
    const model = scene.models[given.lobby]!;
    const who = NAMES[given.who]!;
    const by = NAMES[given.by] ?? null;
    const player: LobbyActor = { kind: "PLAYER", playerId: scene.players[given.who]! };
    const actor: LobbyActor =
      by === null ? { kind: "SERVER" } : { kind: "PLAYER", playerId: scene.players[given.by]! };
    const { playerId } = player;
    const ref = { projectId: scene.projectId, lobbyId: scene.ids[given.lobby]! };
    const does = (name: LobbyCommandName, as: LobbyActor, body?: object) => () =>
      command(scene, given, { name, actor: as, body });
    const joins = (asSpectator: boolean) => () =>
      survive(given, (work) => joinLobby(work, ref, { playerId, asSpectator }));
    const elsewhere = scene.models.some((other) => other !== model && other.seat(who)?.watches === false);
    const quietly = (run: (work: Work) => Promise<unknown>) => async () => {
      await survive(given, run);
      return true;
    };
    switch (given.what) {
      case "join":
      case "watch": {
        const watches = given.what === "watch";
        return { allowed: model.join(who, watches, elsewhere, nowMs), done: joins(watches) };
      }
      case "leave":
      case "quit": {
        const final = given.what === "quit";
        return { allowed: model.leave(who, final, nowMs), done: does("lobby.leave", player, { final }) };
      }
      case "ready":
      case "unready": {
        const ready = given.what === "ready";
        return { allowed: model.setReady(who, ready, nowMs), done: does("lobby.ready", player, { ready }) };
      }
      case "choose":
        return { allowed: model.choose(who, nowMs), done: does("lobby.member", player, { team: 1 }) };
      case "start":
        return { allowed: model.start(by, undefined, nowMs), done: does("lobby.start", actor) };
      case "startNow":
        return {
          allowed: model.start(by, 0, nowMs),
          done: does("lobby.start", actor, { countdownSeconds: 0 }),
        };
      case "cancel":
        return { allowed: model.cancel(by, nowMs), done: does("lobby.cancel_start", actor) };
      case "kick":
      case "ban": {
        const ban = given.what === "ban";
        return {
          allowed: model.kick(by, who, ban, nowMs),
          done: does("lobby.kick", actor, { playerId, ban }),
        };
      }
      case "host":
        return { allowed: model.handOver(by, who, nowMs), done: does("lobby.host", actor, { playerId }) };
      case "connect":
        model.connect(who, nowMs);
        return { allowed: true, done: quietly((work) => connectMember(work, ref, playerId)) };
      case "disconnect":
        model.disconnect(who, nowMs);
        return { allowed: true, done: quietly((work) => disconnectMember(work, ref, playerId)) };
      case "beat":
        return { allowed: model.beat(who, nowMs), done: does("lobby.heartbeat", player) };
      case "end": {
        const body = await endBody(scene, given);
        return { allowed: model.end(nowMs), done: does("lobby.end", { kind: "SERVER" }, body) };
      }
      case "close":
        return { allowed: model.close(by), done: does("lobby.close", actor) };
      case "wait":
        nowMs += given.seconds * 1_000;
        for (const one of scene.models) one.tick(nowMs);
        return { allowed: true, done: () => sweep(given) };
    }
  };

  /** Advances what is due, twice each, until nothing is. */
  const sweep = async (given: Step): Promise<boolean> => {
    for (let round = 0; ; round++) {
      const due = await domain.transact(findDueLobbies);
      if (due.length === 0) return true;
      assert.ok(round < 10, "something stays due");
      for (const ref of due) {
        await survive(given, (work) => advanceLobby(work, ref));
        await domain.transact((work) => advanceLobby(work, ref, "skip"));
      }
    }
  };

  const open = async (of: Rules): Promise<Scene> => {
    const projectId = await domain.addProject();
    const players: string[] = [];
    for (const name of NAMES) players.push(await domain.addPlayer(projectId, name));
    const views: LobbyView[] = [];
    const models: ReferenceLobby[] = [];
    for (const i of [0, 1]) {
      const creation = { hostPlayerId: players[i]!, via: "API" } as const;
      const made = await domain.transact((work) => createLobby(work, projectId, inputOf(of), creation));
      views.push(made.lobby);
      models.push(new ReferenceLobby(of, NAMES[i]!, nowMs));
    }
    return { projectId, players, ids: views.map(({ id }) => id), models };
  };

  const assertAgrees = async ({ projectId, players, ids, models }: Scene): Promise<void> => {
    const rows = await domain.sql<{
      id: string;
      status: string;
      reason: string | null;
      host: string;
      games: number;
      members: object;
    }>`
      select l.id, l.status, l.close_reason as reason, l.host_player_id as host,
        (select count(*)::int from lobby_matches g where g.lobby_id = l.id) as games,
        coalesce((select json_agg(json_build_object('who', m.player_id, 'status', m.status,
          'watches', m.role = 'SPECTATOR') order by m.joined_at, m.player_id)
          from lobby_members m where m.lobby_id = l.id and m.is_active), '[]') as members
      from lobbies l where l.project_id = ${projectId} order by l.id`;
    const idOf = (name: string | null) => players[NAMES.indexOf(name!)]!;
    const statusOf = ({ away, ready }: { away: boolean; ready: boolean }) =>
      away ? "DISCONNECTED" : ready ? "READY" : "JOINED";
    assert.deepEqual(
      rows,
      models.map(({ state, reason, host, games, seats }, i) => ({
        id: ids[i],
        status: state,
        reason,
        host: idOf(host),
        games,
        members: seats.map((seat) => ({
          who: idOf(seat.who),
          status: statusOf(seat),
          watches: seat.watches,
        })),
      })),
    );
  };

  it("does what the plain machine does, whatever comes, when it comes, and wherever it crashes", async () => {
    await fc.assert(
      fc.asyncProperty(rules, programs, async (of, steps) => {
        const scene = await open(of);
        for (const given of steps) {
          nowMs += 1;
          const { allowed, done } = await deedOf(scene, given);
          assert.equal((await done()) !== undefined, allowed, `${given.what} allowed`);
          await assertAgrees(scene);
        }
        await assertLobbies(database.em);
      }),
      { numRuns: cases(40) },
    );
  });
});
