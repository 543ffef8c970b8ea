import type { Operation } from "./history.ts";

/** A lobby as somebody saw it; `players` have a seat, `content` is all that a version must mean. */
export type LobbySeen = {
  lobbyId: string;
  version: number;
  status: string;
  matchId: string | null;
  maxPlayers: number;
  players: readonly string[];
  content: string;
};

/**
 * One look at a lobby. An answer of the API shows what was committed when it was asked for (`sinceMs`) or
 * later; a room shows what it has heard of.
 */
export type Sight = { process: string; via: "api" | "room"; sinceMs: number; atMs: number; lobby: LobbySeen };

export type Seat = { playerId: string; mode: string; lobbyId?: string | undefined; isImmediate?: boolean };
type LobbyOperation = Operation<Seat, { lobbyId: string; maxPlayers: number }>;

export type LobbyHistory = {
  /** join (its result names the lobby), leave, end, close and start. */
  operations: readonly LobbyOperation[];
  sights: readonly Sight[];
  /** `lobby.started`, by the session that heard it. */
  told: readonly { session: string; lobbyId: string; matchId: string }[];
  /** Those that are stored when all is over. */
  matches: readonly { lobbyId: string; matchId: string }[];
};

/** A time in which a player must have had a seat, whatever happened to what nobody knows the end of. */
type Held = { playerId: string; mode: string; lobbyId: string; maxPlayers: number; from: number; to: number };

const TAKES_AWAY = new Set(["leave", "end", "close"]);

const heldSeats = (operations: readonly LobbyOperation[]): Held[] => {
  const takings = operations.filter(({ op, outcome }) => TAKES_AWAY.has(op) && outcome !== "fail");
  return operations.flatMap((join): Held[] => {
    if (join.op !== "join" || join.outcome !== "ok") return [];
    const { lobbyId, maxPlayers } = join.result!;
    const { playerId, mode } = join.value;
    const ends = takings
      .filter(({ value, op }) => value.lobbyId === lobbyId && (op !== "leave" || value.playerId === playerId))
      .filter(({ endedMs }) => endedMs > join.invokedMs)
      .map(({ invokedMs }) => invokedMs);
    const to = Math.min(...ends);
    return to > join.endedMs ? [{ playerId, mode, lobbyId, maxPlayers, from: join.endedMs, to }] : [];
  });
};

const isAt = ({ from, to }: Held, ms: number): boolean => from <= ms && ms < to;

const seatViolations = (held: readonly Held[]): string[] =>
  held.flatMap((seat) => {
    const now = held.filter((other) => isAt(other, seat.from));
    const here = new Set(now.filter(({ lobbyId }) => lobbyId === seat.lobbyId).map((one) => one.playerId));
    const elsewhere = now.filter(
      ({ playerId, mode, lobbyId }) =>
        playerId === seat.playerId && mode === seat.mode && lobbyId !== seat.lobbyId,
    );
    return [
      ...(here.size > seat.maxPlayers
        ? [`lobby ${seat.lobbyId}: ${here.size} players hold ${seat.maxPlayers} seats`]
        : []),
      ...elsewhere.map(
        ({ lobbyId }) => `player ${seat.playerId}: seats of ${seat.mode} in ${lobbyId} and ${seat.lobbyId}`,
      ),
    ];
  });

const look = ({ process, via, atMs, lobby }: Sight): string =>
  `${process} saw by the ${via} ${lobby.content} (${Math.round(atMs)} ms)`;

const contentViolations = (sights: readonly Sight[]): string[] => {
  const known = new Map<string, Sight>();
  return sights.flatMap((sight) => {
    const { lobbyId, version, content, players, maxPlayers } = sight.lobby;
    const key = `lobby ${lobbyId} at version ${version}`;
    const first = known.get(key) ?? sight;
    known.set(key, first);
    return [
      ...(players.length > maxPlayers ? [`${key}: ${players.length} players of ${maxPlayers}`] : []),
      ...(first.lobby.content === content ? [] : [`${key}: ${look(first)}, ${look(sight)}`]),
    ];
  });
};

/** A room never shows its client less than before; the API shows nobody less than anybody has seen before. */
const backwards = (sights: readonly Sight[]): string[] =>
  [...Map.groupBy(sights, ({ lobby }) => lobby.lobbyId)].flatMap(([lobbyId, all]) => {
    const byTime = all.toSorted((a, b) => a.atMs - b.atMs);
    const shown = new Map<string, number>();
    return byTime.flatMap((sight, i) => {
      const { process, via, sinceMs, lobby } = sight;
      const before =
        via === "room"
          ? (shown.get(process) ?? 0)
          : Math.max(0, ...byTime.slice(0, i).map((one) => (one.atMs < sinceMs ? one.lobby.version : 0)));
      if (via === "room") shown.set(process, lobby.version);
      return lobby.version < before
        ? [`lobby ${lobbyId}: ${process} was shown ${lobby.version} by the ${via} after ${before}`]
        : [];
    });
  });

const matchViolations = ({ operations, sights, told, matches }: LobbyHistory): string[] => {
  const stored = new Set(matches.map(({ lobbyId, matchId }) => `${lobbyId} ${matchId}`));
  const starts = operations.filter(({ op, outcome }) => op === "start" && outcome !== "fail");
  const lobbies = new Set([...starts.map(({ value }) => value.lobbyId!), ...matches.map((m) => m.lobbyId)]);
  const counts = [...lobbies].flatMap((lobbyId) => {
    const own = starts.filter(({ value }) => value.lobbyId === lobbyId);
    // A countdown may be cancelled; a start without one is a match at once.
    const least = own.filter(({ outcome, value }) => outcome === "ok" && value.isImmediate).length;
    const count = matches.filter((match) => match.lobbyId === lobbyId).length;
    return count < least || count > own.length
      ? [`lobby ${lobbyId}: ${count} matches of ${least} to ${own.length} starts`]
      : [];
  });
  const unknown = [
    ...told.map(({ lobbyId, matchId }) => `${lobbyId} ${matchId}`),
    ...sights.flatMap(({ lobby }) => (lobby.matchId ? [`${lobby.lobbyId} ${lobby.matchId}`] : [])),
  ].filter((match) => !stored.has(match));
  const heard = Map.groupBy(told, ({ session, matchId }) => `${session} heard of match ${matchId}`);
  const again = [...heard].filter(([, times]) => times.length > 1);
  return [
    ...counts,
    ...[...new Set(unknown)].map((match) => `match ${match} was shown and is not stored`),
    ...again.map(([what, times]) => `${what} ${times.length} times`),
  ];
};

/** What a history of lobbies proves to be wrong, one line each; nothing when all is well. */
export const lobbyViolations = (history: LobbyHistory): string[] => [
  ...seatViolations(heldSeats(history.operations)),
  ...contentViolations(history.sights),
  ...backwards(history.sights),
  ...matchViolations(history),
];
