import { isBefore, type Operation } from "./history.ts";

export type Place = { rank: number; playerId: string; score: number };
/** One attempt to submit; those with one `key` are one submission. `result.score` is the player's then. */
export type Submit = Operation<{ playerId: string; score: number; key: string }, { score: number }>;

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
