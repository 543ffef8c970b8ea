import { Definition } from "../definitions/definition.ts";
import { DEFINITION_KINDS } from "../definitions/kinds.ts";
import { notFound } from "../errors.ts";
import type { Json } from "../events.ts";
import { Leaderboard } from "../leaderboards/leaderboard.ts";
import { getCurve } from "../progression/level-curves.ts";
import type { CurveInput } from "../progression/levels.ts";
import { Project, settingsOf } from "../projects/project.ts";
import { Rule, RuleVersion } from "../rules/rule.ts";
import type { Work } from "../work.ts";
import { CONFIG_FORMAT, type ConfigDocument } from "./document.ts";

/**
 * Everything that a project defines, but for archived things. Of a rule that has been published, what runs;
 * edits that nobody has published stay behind.
 */
export const exportConfig = async (work: Work, projectId: string): Promise<ConfigDocument> => {
  const project = await work.em.findOne(Project, { id: projectId });
  if (!project) throw notFound("project");
  const { type, params } = await getCurve(work, projectId);
  return {
    format: CONFIG_FORMAT,
    timezone: project.timezone,
    settings: settingsOf(project),
    levelCurve: { type, params } as CurveInput,
    ...(await exportDefinitions(work, projectId)),
    leaderboards: await exportBoards(work, projectId),
    rules: await exportRules(work, projectId),
  };
};

const exportDefinitions = async ({ em }: Work, projectId: string): Promise<Record<string, Json[]>> => {
  const found = await em.find(Definition, { projectId, status: "ACTIVE" }, { orderBy: { key: "asc" } });
  return Object.fromEntries(
    DEFINITION_KINDS.map(({ kind, plural }) => [
      plural,
      found.filter((one) => one.kind === kind).map(({ definition }) => definition),
    ]),
  );
};

const exportBoards = async ({ em }: Work, projectId: string): Promise<ConfigDocument["leaderboards"]> => {
  const boards = await em.find(
    Leaderboard,
    { projectId, status: { $ne: "ARCHIVED" } },
    { orderBy: { key: "asc" } },
  );
  return boards.map(({ key, name, status, definition }) => ({
    status: status === "PAUSED" ? "PAUSED" : "ACTIVE",
    leaderboard: { ...definition, key, name, backfill: false },
  }));
};

const exportRules = async ({ em }: Work, projectId: string): Promise<ConfigDocument["rules"]> => {
  const rules = await em.find(Rule, { projectId, status: { $ne: "ARCHIVED" } }, { orderBy: { key: "asc" } });
  const ids = rules.map(({ id }) => id);
  const versions = await em.find(RuleVersion, { ruleId: { $in: ids } });
  const published = new Map(
    versions.map(({ ruleId, version, definition }) => [`${ruleId}:${version}`, definition]),
  );
  return rules.map(({ id, status, draft, publishedVersion }) => ({
    status: status === "ARCHIVED" ? "DRAFT" : status,
    rule: published.get(`${id}:${publishedVersion}`) ?? draft,
  }));
};
