import type { RewardBundle } from "../rewards/bundle.ts";
import type { Quest } from "./quest.ts";
import type { ManualStep, QuestStep } from "./step.ts";

/** What a player's client shows of a quest besides progress, in the player's language. */
export type QuestTexts = {
  name: string;
  description: string | null;
  imageUrl: string | null;
  category: string | null;
  start: Quest["start"];
  claim: Quest["claim"];
  /** Of the whole quest. */
  rewards: RewardBundle;
};

/** What a player's client shows of a step besides progress, in the player's language. */
export type StepTexts = {
  name: string;
  description: string | null;
  optional: boolean;
  /** Null for none. */
  rewards: RewardBundle | null;
  /** MANUAL: what comes with a confirmation. */
  evidence?: ManualStep["evidence"];
};

type Translations = NonNullable<Quest["translations"]>;
type Translation = Translations[string];

const byLocale = new WeakMap<Translations, ReadonlyMap<string, Translation>>();

const localesOf = (translations: Translations): ReadonlyMap<string, Translation> => {
  const known = byLocale.get(translations);
  if (known) return known;
  const locales = new Map(Object.entries(translations).map(([key, one]) => [key.toLowerCase(), one]));
  byLocale.set(translations, locales);
  return locales;
};

/**
 * Returns the translation of a quest for a locale, or else for a more general one: `pt` for `pt-BR`.
 * @returns undefined where there is none, so that the quest's own texts apply
 */
const translationOf = ({ translations }: Quest, locale: string | null): Translation | undefined => {
  if (!translations || locale === null) return undefined;
  const locales = localesOf(translations);
  const parts = locale.toLowerCase().split("-");
  for (let n = parts.length; n > 0; n--) {
    const found = locales.get(parts.slice(0, n).join("-"));
    if (found) return found;
  }
  return undefined;
};

/** Returns the name of a quest for a player of a locale. */
export const questName = (quest: Quest, locale: string | null): string =>
  translationOf(quest, locale)?.name ?? quest.name;

/** Returns the texts of a quest for a player of a locale. */
export const questTexts = (quest: Quest, locale: string | null): QuestTexts => {
  const { description, imageUrl, category, start, claim, rewards } = quest;
  return {
    name: questName(quest, locale),
    description: translationOf(quest, locale)?.description ?? description ?? null,
    imageUrl: imageUrl ?? null,
    category: category ?? null,
    start,
    claim,
    rewards,
  };
};

/** Returns the texts of a step of a quest for a player of a locale. */
export const stepTexts = (quest: Quest, step: QuestStep, locale: string | null): StepTexts => {
  const own = translationOf(quest, locale)?.steps?.[step.key];
  return {
    name: own?.name ?? step.name,
    description: own?.description ?? step.description ?? null,
    optional: step.optional,
    rewards: step.rewards ?? null,
    ...(step.kind === "MANUAL" ? { evidence: step.evidence } : {}),
  };
};
