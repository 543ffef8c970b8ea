import type { Caller } from "../../kernel/caller.ts";
import type { Json } from "../../kernel/events/events.ts";

/** A step of a quest as far as it has secrets; stored ones may be of an earlier version of the service. */
type Step = Json & { key?: string; kind?: string; codeHashes?: unknown; questions?: Json[] };

const stepsOf = (document: Json): Step[] | undefined =>
  Array.isArray(document["steps"]) ? (document["steps"] as Step[]) : undefined;

const withSteps = (document: Json, change: (step: Step) => Step): Json => {
  const steps = stepsOf(document);
  return steps ? { ...document, steps: steps.map(change) } : document;
};

const withoutCodes = ({ codeHashes: _secret, ...step }: Step): Step => step;

const withoutAnswers = (step: Step): Step =>
  Array.isArray(step.questions)
    ? { ...step, questions: step.questions.map(({ correct: _secret, ...question }) => question) }
    : step;

/** Returns a definition without what no answer shows: the hashes of codes of quests. */
export const withoutSecrets = (kind: string, document: Json): Json =>
  kind === "quest" ? withSteps(document, withoutCodes) : document;

/**
 * Whether a caller may see the answers of quizzes: who may write quests, and the team. Keys that only read
 * may be those of a client.
 */
const seesAnswers = (caller: Caller | undefined): boolean =>
  caller === undefined || caller.kind !== "key" || caller.scopes.includes("quests:manage");

/** As `withoutSecrets`, and without the answers of quizzes where the caller does not write quests. */
export const shownTo = (caller: Caller | undefined, kind: string, document: Json): Json => {
  const shown = withoutSecrets(kind, document);
  return kind !== "quest" || seesAnswers(caller) ? shown : withSteps(shown, withoutAnswers);
};

/** Returns a definition with the secrets that it leaves out, as far as another of the same key has them. */
export const withSecretsOf = <D extends Json>(kind: string, document: D, before: Json | undefined): D => {
  if (kind !== "quest" || !before) return document;
  const known = new Map((stepsOf(before) ?? []).map((step) => [step.key, step]));
  return withSteps(document, (step) => {
    const own = known.get(step?.key);
    const isLeftOut =
      step?.kind === "CODE" && step.codeHashes === undefined && step["perPlayerCodes"] !== true;
    return isLeftOut && own?.codeHashes !== undefined ? { ...step, codeHashes: own.codeHashes } : step;
  }) as D;
};
