import { z } from "zod";
import { actorOf, BUILDERS, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { auditDefinition } from "../../domain/accounts/audit/audit.ts";
import { getCurve, previewCurve, type SavedCurve } from "../../domain/progression/level-curves.ts";
import { CurveInput, LEVELS_MAX } from "../../domain/evaluation/xp/levels.ts";
import { saveCurve } from "../../domain/economy/levels/relevel.ts";
import { group } from "../route.ts";
import { ProjectJob } from "../../domain/long-work/project-jobs.ts";

const RECALCULATE = ["NONE", "SILENT", "WITH_EVENTS"] as const;

const recalculation = {
  recalculate: z
    .enum(RECALCULATE)
    .default("NONE")
    .meta({
      description:
        "NONE: players get the new level with their next XP. SILENT: all at once, without events. " +
        "WITH_EVENTS: by a job, with player.level_up and the rewards of levels",
    }),
};
const [table, linear, quadratic, exponential] = CurveInput.options;
const PutCurveBody = z.discriminatedUnion("type", [
  table.extend(recalculation),
  linear.extend(recalculation),
  quadratic.extend(recalculation),
  exponential.extend(recalculation),
]);

const Thresholds = z
  .array(z.int())
  .max(LEVELS_MAX)
  .meta({ description: "Total XP that each level needs, from level 1", example: [0, 100, 250, 450] });

const CurveBody = z
  .object({
    version: z.int().meta({ description: "0 is the default curve, which was never saved" }),
    type: z.enum(["TABLE", "LINEAR", "QUADRATIC", "EXPONENTIAL"]),
    params: z.record(z.string(), z.unknown()),
    thresholds: Thresholds,
    maxLevel: z.int(),
  })
  .meta({ id: "LevelCurve" });

const PreviewBody = z.object({
  thresholds: Thresholds,
  distribution: z
    .array(z.object({ level: z.int(), players: z.int() }))
    .meta({ description: "How many of today's players each level would have" }),
});

const show = ({ version, type, params, thresholds }: SavedCurve) => ({
  version,
  type,
  params,
  thresholds,
  maxLevel: thresholds.length,
});

const common = group({ tag: "Level curve", project: "caller" });

export const levelCurveRoutes = [
  common.get("/level-curve", "getLevelCurve", {
    isRevalidated: true,
    summary: "Get the level curve",
    access: { scope: "config:read", roles: EVERY_ROLE },
    response: CurveBody,
    run: async (work, { projectId }) => show(await getCurve(work, projectId)),
  }),
  common.put("/level-curve", "putLevelCurve", {
    summary: "Save a level curve",
    description: "Beyond the last level XP still grows. Levels fall only where the project allows it.",
    access: { scope: "config:manage", roles: DESIGNERS },
    body: PutCurveBody,
    example: { type: "LINEAR", params: { base: 100, maxLevel: 50 } },
    response: CurveBody.extend({
      job: ProjectJob.nullable().meta({
        description: "The job that applies the new levels, for WITH_EVENTS",
      }),
    }).meta({ id: "SavedLevelCurve" }),
    run: async (work, { caller, projectId, body: { recalculate, ...given } }) => {
      const put = { curve: given, recalculate, actor: actorOf(caller) };
      const { curve, job } = await saveCurve(work, projectId, put);
      await auditDefinition(work, "level_curve.saved", { projectId, id: projectId });
      return { ...show(curve), job };
    },
  }),
  common.post("/level-curve/preview", "previewLevelCurve", {
    summary: "Preview a level curve",
    description: "The table of levels, and how today's players would spread over it. Saves nothing.",
    access: { scope: "config:read", roles: BUILDERS },
    body: CurveInput,
    example: { type: "EXPONENTIAL", params: { base: 100, ratio: 1.2, maxLevel: 50 } },
    response: PreviewBody,
    run: (work, { projectId, body }) => previewCurve(work, projectId, body),
  }),
];
