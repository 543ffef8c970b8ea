import fc from "fast-check";
import { NewLobby } from "../../../src/domain/social/lobbies/commands.ts";
import type { Rules } from "./reference.ts";

export const NAMES = ["ada", "bob", "cy", "dan"];
/** Where a change dies at the latest; most have about 8 statements, and get through when it is later. */
const STATEMENTS = 24;

export type Step = {
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
export const programs: fc.Arbitrary<Step[]> = fc
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
export const rules: fc.Arbitrary<Rules> = fc.record({
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
export const inputOf = (of: Rules) =>
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
