import { Adventure, ADVENTURES_MAX, adventureShape } from "../../evaluation/adventures/adventure.ts";
import { whatCannotEnd } from "../../evaluation/adventures/reach.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { definitionKind } from "../definitions/kind.ts";
import { isActiveKey, type Reference, UnknownReference } from "../definitions/references.ts";
import { circleThrough, readGoals } from "../quests/circles.ts";
import { checkBundles } from "../rewards/references.ts";

/** Returns the definitions that an adventure names outside its rewards, besides its quests. */
const mentionsOf = ({ audience, premiumPrice }: Adventure): Reference[] => [
  ...(audience?.segmentKeys ?? []).map((key, i) => ({
    kind: "segment",
    key,
    field: `audience.segmentKeys.${i}`,
  })),
  ...(premiumPrice
    ? [{ kind: "currency", key: premiumPrice.currencyKey, field: "premiumPrice.currencyKey" }]
    : []),
];

const checkNames = async (
  work: Work,
  projectId: string,
  adventure: Adventure,
  quests: ReadonlySet<string>,
) => {
  const missing: Reference[] = adventure.items.flatMap(({ questKey: key }, i) =>
    quests.has(key) ? [] : [{ kind: "quest", key, field: `items.${i}.questKey` }],
  );
  for (const mention of mentionsOf(adventure))
    if (!(await isActiveKey(work, projectId, mention))) missing.push(mention);
  const [first, ...others] = missing;
  if (first) throw new UnknownReference([first, ...others]);
};

/** Refuses unknown names, what cannot end, and quests and adventures that wait for one another. */
const check = async (work: Work, projectId: string, adventure: Adventure): Promise<void> => {
  const goals = await readGoals(work, projectId);
  const quests = new Map(
    goals.flatMap(({ kind, definition }) =>
      kind === "quest" ? [[definition.key, definition] as const] : [],
    ),
  );
  await checkNames(work, projectId, adventure, new Set(quests.keys()));
  const repeats = (key: string): boolean => quests.get(key)?.repeat.mode !== "NONE";
  const [problem] = whatCannotEnd(adventure, repeats);
  if (problem) throw invalid(problem.path.join("."), problem.message, "ADVENTURE_CANNOT_END");
  const circle = await circleThrough(goals, { kind: "adventure", definition: adventure }, work.now.getTime());
  if (circle)
    throw invalid(
      "items",
      `quests and adventures wait for one another: ${circle.join(" → ")}`,
      "QUEST_CYCLE",
    );
  const { key, rewards, tiers } = adventure;
  const bundles = [
    { bundle: rewards, field: "rewards" },
    ...tiers.flatMap(({ free, premium }, i) => [
      ...(free ? [{ bundle: free, field: `tiers.${i}.free` }] : []),
      ...(premium ? [{ bundle: premium, field: `tiers.${i}.premium` }] : []),
    ]),
  ];
  await checkBundles(work, projectId, { kind: "adventure", key, bundles });
};

export const adventureKind = definitionKind<Adventure>({
  kind: "adventure",
  plural: "adventures",
  tag: "Adventures",
  schema: Adventure,
  shape: adventureShape,
  max: ADVENTURES_MAX,
  hasDrafts: true,
  check,
});
