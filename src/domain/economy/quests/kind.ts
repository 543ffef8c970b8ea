import { sql } from "kysely";
import { fieldMentions, type Mention } from "../../evaluation/language/mention.ts";
import { kindOf } from "../../evaluation/conditions/condition-kinds.ts";
import { PLAYER, referencesIn } from "../../evaluation/language/references.ts";
import { visitLeaves } from "../../evaluation/language/trees.ts";
import type { Group } from "../../evaluation/language/groups.ts";
import { Quest, QUESTS_MAX, questShape } from "../../evaluation/quests/quest.ts";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { definitionKind } from "../definitions/kind.ts";
import { isActiveKey, type Reference, UnknownReference } from "../definitions/references.ts";
import { checkBundles } from "../rewards/references.ts";
import { startCounting } from "../rewards/start-counting.ts";
import { readGoals } from "./circles.ts";
import { checkGoals, concernsOthers } from "./among-goals.ts";
import { closeWaiting } from "./stopped.ts";

const mentionsIn = (group: Group, field: string): Mention[] => {
  const found: Mention[] = [];
  visitLeaves(
    group,
    (leaf, path) => {
      const referred = referencesIn(leaf)
        .filter(({ referent }) => referent.startsWith(PLAYER))
        .flatMap(({ path: at, referent }) => fieldMentions(at.join("."), referent.slice(PLAYER.length)));
      const own = kindOf(leaf.type)?.mentions(leaf) ?? [];
      found.push(...[...own, ...referred].map((one) => ({ ...one, path: `${path}.${one.path}` })));
    },
    field,
  );
  return found;
};

/** Returns the definitions that a quest names outside its rewards, with the fields that name them. */
export const mentionsOfQuest = ({ audience, prerequisites, start, steps }: Quest): Mention[] => [
  ...(start.cost
    ? [{ kind: "currency", key: start.cost.currencyKey, path: "start.cost.currencyKey" } as const]
    : []),
  ...(audience?.segmentKeys ?? []).map((key, i): Mention => {
    return { kind: "segment", key, path: `audience.segmentKeys.${i}` };
  }),
  ...(prerequisites ? mentionsIn(prerequisites, "prerequisites") : []),
  ...steps.flatMap((step, i) =>
    step.kind === "STATE" ? mentionsIn(step.condition, `steps.${i}.condition`) : [],
  ),
];

const isBoard = async ({ db }: Work, projectId: string, key: string): Promise<boolean> => {
  const found = await sql`
    select 1 from leaderboards
    where project_id = ${projectId} and key = ${key} and status <> 'ARCHIVED'`.execute(db);
  return found.rows.length > 0;
};

const checkMentions = async (work: Work, projectId: string, quest: Quest): Promise<void> => {
  const missing: Reference[] = [];
  const known = new Set<string>();
  for (const { kind, key, path: field } of mentionsOfQuest(quest)) {
    const isOwn = kind === "quest" && key === quest.key;
    if (isOwn || known.has(`${kind} ${key}`)) continue;
    const isThere =
      kind === "leaderboard"
        ? await isBoard(work, projectId, key)
        : await isActiveKey(work, projectId, { kind, key });
    if (isThere) known.add(`${kind} ${key}`);
    else missing.push({ field, kind, key });
  }
  const [first, ...others] = missing;
  if (first) throw new UnknownReference([first, ...others]);
};

/** A step that no code solves would never end. Pools may be filled later. */
const checkCodes = ({ steps }: Quest): void =>
  steps.forEach((step, i) => {
    if (step.kind !== "CODE" || step.perPlayerCodes || (step.codeHashes ?? []).length > 0) return;
    throw invalid(
      `steps.${i}.codeHashes`,
      `the step ${step.key} cannot be done without codes: give their hashes, or set perPlayerCodes; ` +
        "exports leave hashes out, so give them anew",
      "CODES_MISSING",
    );
  });

/** Refuses unknown names, what cannot end, and changes on which other quests and adventures rely. */
const check = async (
  work: Work,
  projectId: string,
  quest: Quest,
  before: Quest | undefined,
): Promise<void> => {
  checkCodes(quest);
  await checkMentions(work, projectId, quest);
  if (concernsOthers(quest, before))
    await checkGoals(await readGoals(work, projectId), quest, { before, nowMs: work.now.getTime() });
  const { key, rewards, steps } = quest;
  const bundles = [
    { bundle: rewards, field: "rewards" },
    ...steps.flatMap((step, i) =>
      step.rewards ? [{ bundle: step.rewards, field: `steps.${i}.rewards` }] : [],
    ),
  ];
  await checkBundles(work, projectId, { kind: "quest", key, bundles });
  if (quest.maxParticipants !== undefined && before?.maxParticipants === undefined)
    await startCounting(work, { projectId, kind: "quest", key });
};

export const questKind = definitionKind<Quest>({
  kind: "quest",
  plural: "quests",
  tag: "Quests",
  schema: Quest,
  shape: questShape,
  max: QUESTS_MAX,
  hasDrafts: true,
  check,
  stopped: closeWaiting,
});
