import { sql } from "kysely";
import { definitionKind } from "../definitions/definitions.ts";
import { checkNamed, isActiveKey, namesOfAudience, type Reference } from "../definitions/references.ts";
import { checkCircle, type Goal, isOver, questsIn, readGoals } from "./circles.ts";
import { checkBundles, startCounting } from "../rewards/references.ts";
import { whatCannotEnd } from "../../evaluation/adventures/adventure.ts";
import { kindOf } from "../../evaluation/conditions/condition-kinds.ts";
import type { Group } from "../../evaluation/language/groups.ts";
import { fieldMentions, PLAYER, referencesIn } from "../../evaluation/language/syntax.ts";
import { type Tree, visitLeaves } from "../../evaluation/language/trees.ts";
import { Quest, QUESTS_MAX, questShape } from "../../evaluation/quests/quest.ts";
import { conflict, invalid } from "../../kernel/errors.ts";
import { unanswered } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";
import { DOCUMENT, DRAFT_ORDERS, type DraftList } from "../definitions/drafts.ts";

/** A step of a quest that a condition names, and the field that does. */
type NamedStep = { key: string; stepKey: string; path: string };
type Leaf = { type: string; entity?: string; key?: string; stepKey?: string };

/** Returns the steps of quests that the conditions of a quest name. */
const stepsNamedBy = ({ prerequisites, steps }: Quest): NamedStep[] => {
  const found: NamedStep[] = [];
  const look = (group: object, field: string): void =>
    visitLeaves(
      group as Tree<Leaf>,
      ({ type, entity, key = "", stepKey = "" }, path) => {
        if (type === "progress_state" && entity === "quest_step")
          found.push({ key, stepKey, path: `${path}.stepKey` });
      },
      field,
    );
  if (prerequisites) look(prerequisites, "prerequisites");
  steps.forEach((step, i) => {
    if (step.kind === "STATE") look(step.condition, `steps.${i}.condition`);
  });
  return found;
};

const hasStep = ({ steps }: Quest, stepKey: string): boolean => steps.some(({ key }) => key === stepKey);

/** Refuses names of steps that their quests do not have, and to take away steps that other quests name. */
const checkSteps = (goals: readonly Goal[], quest: Quest): void => {
  const quests = questsIn(goals).set(quest.key, quest);
  for (const { key, stepKey, path } of stepsNamedBy(quest)) {
    const named = quests.get(key);
    if (named && !hasStep(named, stepKey))
      throw invalid(path, `the quest ${key} has no step ${stepKey}`, "UNKNOWN_STEP");
  }
  for (const other of quests.values()) {
    if (other === quest) continue;
    const gone = stepsNamedBy(other).find(
      ({ key, stepKey }) => key === quest.key && !hasStep(quest, stepKey),
    );
    if (gone)
      throw conflict("IN_USE", `the quest ${other.key} names the step ${gone.stepKey}; change it first`);
  }
};

/** Refuses to make a quest repeat no more where an adventure needs the points of further completions. */
const checkAdventures = (goals: readonly Goal[], quest: Quest, nowMs: number): void => {
  const quests = questsIn(goals).set(quest.key, quest);
  const repeats = (key: string): boolean => (quests.get(key)?.repeat.mode ?? "NONE") !== "NONE";
  for (const goal of goals) {
    if (goal.kind !== "adventure" || isOver(goal, nowMs)) continue;
    const { definition } = goal;
    if (!definition.items.some(({ questKey }) => questKey === quest.key)) continue;
    const [problem] = whatCannotEnd(definition, repeats);
    if (!problem) continue;
    const what = `its ${problem.path.join(".")} ${problem.message}`;
    const message = `the adventure ${definition.key} needs it to repeat: ${what}`;
    throw invalid("repeat.mode", message, "ADVENTURE_CANNOT_END");
  }
};

const mayRepeatLess = (quest: Quest, before: Quest | undefined): boolean =>
  before !== undefined && before.repeat.mode !== "NONE" && quest.repeat.mode === "NONE";

const hasConditions = ({ prerequisites, steps }: Quest): boolean =>
  prerequisites !== undefined || steps.some(({ kind }) => kind === "STATE");

/**
 * Returns whether a quest must be checked among others: it names them, or has less than what it replaces, on
 * which others may rely.
 */
const concernsOthers = (quest: Quest, before: Quest | undefined): boolean =>
  hasConditions(quest) ||
  mayRepeatLess(quest, before) ||
  before?.steps.some(({ key }) => !hasStep(quest, key)) === true;

/**
 * Checks a quest among those that are published, and the adventures.
 * @param before what it replaces
 * @throws DomainError VALIDATION_ERROR: QUEST_CYCLE, UNKNOWN_STEP, ADVENTURE_CANNOT_END; CONFLICT: IN_USE
 */
const checkGoals = async (
  goals: readonly Goal[],
  quest: Quest,
  { before, nowMs }: { before: Quest | undefined; nowMs: number },
): Promise<void> => {
  checkSteps(goals, quest);
  if (mayRepeatLess(quest, before)) checkAdventures(goals, quest, nowMs);
  if (!hasConditions(quest)) return;
  const field = quest.prerequisites ? "prerequisites" : "steps";
  await checkCircle(goals, { kind: "quest", definition: quest }, { field, nowMs });
};

/**
 * Makes due what waits for a review in quests that were ended or archived: the next sweep expires it, and
 * withdraws what was submitted. Players who may still finish theirs go on.
 */
const closeWaiting = async ({ db, now }: Work, projectId: string, keys: readonly string[]): Promise<void> => {
  const due = sql`
    update player_quests q set due_at = ${now.toISOString()}::timestamptz
    from (
      select distinct player_id, quest_key, cycle_key, player_quest_id from quest_submissions
      where project_id = ${projectId} and status = 'PENDING'
        and quest_key in (select jsonb_array_elements_text(${JSON.stringify(keys)}::jsonb))) s
    where q.project_id = ${projectId} and q.player_id = s.player_id and q.quest_key = s.quest_key
      and q.cycle_key = s.cycle_key and q.id = s.player_quest_id and q.state = 'IN_PROGRESS'`;
  await unanswered(db, due);
};

const namesIn = (group: Group, start: string): Reference[] => {
  const found: Reference[] = [];
  visitLeaves(
    group,
    (leaf, path) => {
      const referred = referencesIn(leaf)
        .filter(({ referent }) => referent.startsWith(PLAYER))
        .flatMap(({ path: at, referent }) => fieldMentions(at.join("."), referent.slice(PLAYER.length)));
      const own = kindOf(leaf.type)?.mentions(leaf) ?? [];
      found.push(
        ...[...own, ...referred].map(({ kind, key, path: at }) => ({ kind, key, field: `${path}.${at}` })),
      );
    },
    start,
  );
  return found;
};

/** Returns the definitions that a quest names outside its rewards. */
const namesOf = ({ audience, prerequisites, start: { cost }, steps }: Quest): Reference[] => [
  ...(cost ? [{ kind: "currency", key: cost.currencyKey, field: "start.cost.currencyKey" }] : []),
  ...namesOfAudience(audience),
  ...(prerequisites ? namesIn(prerequisites, "prerequisites") : []),
  ...steps.flatMap((step, i) =>
    step.kind === "STATE" ? namesIn(step.condition, `steps.${i}.condition`) : [],
  ),
];

const isBoard = async ({ db }: Work, projectId: string, key: string): Promise<boolean> => {
  const found = await sql`
    select 1 from leaderboards
    where project_id = ${projectId} and key = ${key} and status <> 'ARCHIVED'`.execute(db);
  return found.rows.length > 0;
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
  await checkNamed(namesOf(quest), ({ kind, key }) => {
    if (kind === "quest" && key === quest.key) return true;
    return kind === "leaderboard"
      ? isBoard(work, projectId, key)
      : isActiveKey(work, projectId, { kind, key });
  });
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

type Filters = {
  category?: string | undefined;
  tag?: string | undefined;
  /** Items of the adventure with this key, as it is published. */
  adventureKey?: string | undefined;
};

const isItemOf = (projectId: string, adventureKey: string) => sql`exists (
  select 1 from definitions a
  where a.project_id = ${projectId} and a.kind = 'adventure' and a.key = ${adventureKey}
    and a.status = 'ACTIVE' and a.definition @> jsonb_build_object('items',
      jsonb_build_array(jsonb_build_object('questKey', definitions.key))))`;

/** How quests are listed. */
export const questList: DraftList<keyof typeof DRAFT_ORDERS, Filters> = {
  kind: "quest",
  orders: { by: DRAFT_ORDERS, usual: "asc" },
  span: { from: "availableFrom", until: "availableUntil" },
  where: ({ category, tag, adventureKey }, projectId) => [
    category === undefined ? undefined : sql`${DOCUMENT} ->> 'category' = ${category}`,
    tag === undefined ? undefined : sql`${DOCUMENT} -> 'tags' ? ${tag}`,
    adventureKey === undefined ? undefined : isItemOf(projectId, adventureKey),
  ],
};
