/** What a client did and what it knows of it. Times are monotonic, in ms. */
type Operation<V = unknown, R = unknown> = {
  /** The client. */
  process: string;
  op: string;
  value: V;
  invokedMs: number;
  /** Infinity when the client never learnt how it ended: it may take effect whenever. */
  endedMs: number;
  /** `fail`: it was refused and did nothing. `info`: nobody knows. */
  outcome: "ok" | "fail" | "info";
  result?: R;
  /** Why it is not ok. */
  error?: Error;
};

/** An answer that says that nothing was done. */
export class Refused extends Error {}

type RunOptions<R> = {
  /** After which the client waits no longer; default 3,000. */
  timeoutMs?: number;
  /** What came of it when the client had stopped waiting. */
  onLate?: (result: R) => void;
};

const TIMEOUT_MS = 3_000;

/** What clients did, in the order in which they began. */
export class History {
  readonly operations: Operation[] = [];

  /**
   * Records one operation. What `attempt` gives is its result; a Refused is a fail; any other error, or no
   * answer in time, leaves it open what happened. It never rejects.
   */
  async run<V, R>(
    [process, op]: readonly [process: string, op: string],
    value: V,
    attempt: () => Promise<R>,
    { timeoutMs = TIMEOUT_MS, onLate }: RunOptions<R> = {},
  ): Promise<Operation<V, R>> {
    const operation: Operation<V, R> = {
      process,
      op,
      value,
      invokedMs: performance.now(),
      endedMs: Infinity,
      outcome: "info",
    };
    this.operations.push(operation);
    let timer: NodeJS.Timeout | undefined;
    let isLate = false;
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        isLate = true;
        reject(new Error("no answer in time"));
      }, timeoutMs);
    });
    const attempted = attempt();
    attempted.then(
      (result) => isLate && onLate?.(result),
      () => undefined,
    );
    try {
      const result = await Promise.race([attempted, timeout]);
      Object.assign(operation, { outcome: "ok", result, endedMs: performance.now() });
    } catch (error) {
      operation.error = error as Error;
      if (error instanceof Refused) Object.assign(operation, { outcome: "fail", endedMs: performance.now() });
    } finally {
      clearTimeout(timer);
    }
    return operation;
  }

  /** Operations of a kind; whoever recorded them knows their shapes. */
  of<V, R>(...names: readonly string[]): Operation<V, R>[] {
    return this.operations.filter(({ op }) => names.includes(op)) as Operation<V, R>[];
  }
}

/** Whether `a` had ended when `b` began, so that everybody must see them in this order. */
const isBefore = (a: Operation, b: Operation, marginMs = 0): boolean => a.endedMs + marginMs < b.invokedMs;

export type Message = { seq: number; id: string; content: string; senderId: string };
/** One attempt to send; attempts of one message have one `content`, which no other message has. */
type Send = Operation<{ content: string; senderId: string }, { seq: number; id: string }>;
/** What a reader was shown in one session: messages one by one, or many at once on coming and coming back. */
export type Delivery = { isHistory: boolean; messages: readonly Message[] };
export type Reader = { name: string; sessions: readonly (readonly Delivery[])[] };

type AppendHistory = {
  sends: readonly Send[];
  /** By seq. */
  stored: readonly Message[];
  readers: readonly Reader[];
};

const textOf = ({ id, content, senderId }: Message): string => `${content} of ${senderId} as ${id}`;

const storedViolations = ({ sends, stored }: AppendHistory): string[] => {
  const sent = new Set(sends.map(({ value }) => `${value.senderId} ${value.content}`));
  const times = Map.groupBy(stored, ({ senderId, content }) => `${senderId} ${content}`);
  return [
    ...stored.flatMap(({ seq }, i) => (seq === i + 1 ? [] : [`place ${i + 1} has seq ${seq}`])),
    ...[...times].flatMap(([what, all]) => (all.length > 1 ? [`${what} is there ${all.length} times`] : [])),
    ...[...times.keys()].filter((what) => !sent.has(what)).map((what) => `${what} was never sent`),
  ];
};

const acknowledged = (sends: readonly Send[]): Send[] => sends.filter(({ outcome }) => outcome === "ok");

const ackViolations = ({ sends, stored }: AppendHistory): string[] => {
  const bySeq = new Map(stored.map((message) => [message.seq, message]));
  return acknowledged(sends).flatMap(({ value, result }) => {
    const found = bySeq.get(result!.seq);
    const want = textOf({ ...value, ...result! });
    if (found && textOf(found) === want) return [];
    return [
      `${want} was acknowledged as ${result!.seq}, where there is ${found ? textOf(found) : "nothing"}`,
    ];
  });
};

/** Attempts of one message as one operation: from the first attempt to the first answer. */
const wholeSends = (sends: readonly Send[]): Send[] =>
  [...Map.groupBy(sends, ({ value }) => value.content).values()].flatMap((attempts) => {
    const [answered] = acknowledged(attempts);
    const endedMs = Math.min(...acknowledged(attempts).map((attempt) => attempt.endedMs));
    const invokedMs = Math.min(...attempts.map((attempt) => attempt.invokedMs));
    return answered ? [{ ...answered, invokedMs, endedMs }] : [];
  });

/** Who was answered before somebody else began has the lower number. */
const orderViolations = ({ sends }: AppendHistory): string[] => {
  const whole = wholeSends(sends).toSorted((a, b) => a.result!.seq - b.result!.seq);
  return whole.flatMap((later, i) =>
    whole
      .slice(0, i)
      .filter((earlier) => isBefore(later, earlier))
      .map((earlier) => `${later.value.content} was answered before ${earlier.value.content} began`),
  );
};

const readerViolations = (stored: readonly Message[], { name, sessions }: Reader): string[] => {
  const bySeq = new Map(stored.map((message) => [message.seq, textOf(message)]));
  const shown = sessions.flat().flatMap(({ messages }) => messages);
  const seen = new Set(shown.map(({ seq }) => seq));
  const other = shown.filter((message) => bySeq.get(message.seq) !== textOf(message));
  const gaps = sessions.flatMap((deliveries) => {
    // What has not begun with the history has nothing to go on from.
    let last = -1;
    return deliveries.flatMap(({ isHistory, messages }) => {
      const before = last;
      last = Math.max(last, 0, ...messages.map(({ seq }) => seq));
      const [first] = messages;
      const isGap = !isHistory && first && first.seq > before + 1;
      return isGap ? [`${name} was shown ${first.seq} right after ${before}`] : [];
    });
  });
  return [
    ...other.map((one) => `${name} saw ${textOf(one)} at ${one.seq}, where there is ${bySeq.get(one.seq)}`),
    ...stored.flatMap(({ seq }) => (seen.has(seq) ? [] : [`${name} never saw ${seq}`])),
    ...gaps,
  ];
};

/** What a history of one channel proves to be wrong, one line each; nothing when all is well. */
export const appendViolations = (history: AppendHistory): string[] => [
  ...storedViolations(history),
  ...ackViolations(history),
  ...orderViolations(history),
  ...history.readers.flatMap((reader) => readerViolations(history.stored, reader)),
];

export type Place = { rank: number; playerId: string; score: number };
/** One attempt to submit; those with one `key` are one submission. `result.score` is the player's then. */
type Submit = Operation<{ playerId: string; score: number; key: string }, { score: number }>;

export type BoardHistory = {
  operator: "SUM" | "BEST";
  ties: "EARLIEST" | "SHARED";
  submits: readonly Submit[];
  /** What the database ranks by itself when all is quiet, first place first. */
  ranked: readonly Place[];
  /** What everything else shows at that time. */
  views: readonly { name: string; places: readonly Place[] }[];
};

/** Clocks of processes have ms: what is closer than this may have happened at once. */
const SAME_MS = 3;

type Submission = Submit & { isCertain: boolean };

/** Attempts of one submission as one: from the first attempt to the first answer. */
const submissionsOf = (submits: readonly Submit[]): Submission[] =>
  [...Map.groupBy(submits, ({ value }) => value.key).values()].flatMap((attempts) => {
    const open = attempts.filter(({ outcome }) => outcome !== "fail");
    if (open.length === 0) return [];
    const answered = open.filter(({ outcome }) => outcome === "ok");
    const invokedMs = Math.min(...open.map((attempt) => attempt.invokedMs));
    const endedMs = Math.min(Infinity, ...answered.map((attempt) => attempt.endedMs));
    return [{ ...(answered[0] ?? open[0]!), invokedMs, endedMs, isCertain: answered.length > 0 }];
  });

/** Every score that a player may have, whatever became of what was not answered; undefined for none. */
const possibleScores = (
  operator: BoardHistory["operator"],
  own: readonly Submission[],
): Set<number | undefined> => {
  const join = (score: number | undefined, next: number): number =>
    operator === "SUM" ? (score ?? 0) + next : Math.max(score ?? -Infinity, next);
  let scores = new Set<number | undefined>([undefined]);
  for (const { value, isCertain } of own) {
    const joined = [...scores].map((score) => join(score, value.score));
    scores = new Set(isCertain ? joined : [...scores, ...joined]);
  }
  return scores;
};

const scoreViolations = ({ operator, ranked }: BoardHistory, all: readonly Submission[]): string[] => {
  const scores = new Map(ranked.map(({ playerId, score }) => [playerId, score]));
  const players = Map.groupBy(all, ({ value }) => value.playerId);
  const wrong = [...players].flatMap(([playerId, own]) => {
    const possible = possibleScores(operator, own);
    const score = scores.get(playerId);
    return possible.has(score) ? [] : [`player ${playerId} has ${score}, not one of ${[...possible].join()}`];
  });
  const strangers = ranked.filter(({ playerId }) => !players.has(playerId));
  return [...wrong, ...strangers.map(({ playerId }) => `player ${playerId} never had a score`)];
};

/** Scores are not negative here, so that a player's score never falls from answer to answer. */
const fallViolations = (all: readonly Submission[]): string[] => {
  const answered = all.filter(({ isCertain }) => isCertain);
  return answered.flatMap((later) =>
    answered
      .filter((one) => one.value.playerId === later.value.playerId && isBefore(one, later))
      .filter(({ result }) => result!.score > later.result!.score)
      .map(
        ({ result }) => `player ${later.value.playerId} fell from ${result!.score} to ${later.result!.score}`,
      ),
  );
};

const rankViolations = ({ ties, ranked, views }: BoardHistory): string[] => {
  const numbered = ranked.flatMap(({ rank, score }, i) => {
    const want = ties === "SHARED" ? ranked.findIndex((place) => place.score === score) + 1 : i + 1;
    return rank === want ? [] : [`place ${i + 1} is ranked ${rank}, not ${want}`];
  });
  const unordered = ranked.slice(1).filter(({ score }, i) => score > ranked[i]!.score);
  return [
    ...numbered,
    ...unordered.map(({ playerId }) => `player ${playerId} stands behind who has less`),
    ...views.flatMap(({ name, places }) => {
      const [seen, want] = [JSON.stringify(places), JSON.stringify(ranked)];
      return seen === want ? [] : [`${name} shows ${seen}, not ${want}`];
    }),
  ];
};

/** Of equals with ties EARLIEST, who was answered before the other began stands first. */
const tieViolations = ({ operator, ties, ranked }: BoardHistory, all: readonly Submission[]): string[] => {
  if (ties !== "EARLIEST" || operator !== "BEST") return [];
  const reaching = ({ playerId, score }: Place): Submission[] =>
    all.filter(({ value }) => value.playerId === playerId && value.score === score);
  return ranked.flatMap((place, i) =>
    ranked
      .slice(0, i)
      .filter(({ score }) => score === place.score)
      .filter((ahead) =>
        reaching(place).some((own) => reaching(ahead).every((other) => isBefore(own, other, SAME_MS))),
      )
      .map((ahead) => `player ${place.playerId} had ${place.score} before ${ahead.playerId}, who is ahead`),
  );
};

/** What the history of one leaderboard proves to be wrong, one line each; nothing when all is well. */
export const leaderboardViolations = (history: BoardHistory): string[] => {
  const all = submissionsOf(history.submits);
  return [
    ...scoreViolations(history, all),
    ...fallViolations(all),
    ...rankViolations(history),
    ...tieViolations(history, all),
  ];
};

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
