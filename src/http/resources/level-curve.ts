import { z } from "zod";
import { BUILDERS, DESIGNERS, EVERY_ROLE } from "../../domain/access.ts";
import { auditDefinition } from "../../domain/audit/definitions.ts";
import { actorOf } from "../../domain/caller.ts";
import { getCurve, previewCurve, putCurve, type SavedCurve } from "../../domain/progression/level-curves.ts";
import { CurveInput, LEVELS_MAX } from "../../domain/progression/levels.ts";
import { route } from "../route.ts";

const RECALCULATE = ["NONE", "SILENT"] as const;

const recalculation = {
  recalculate: z
    .enum(RECALCULATE, { error: "must be NONE or SILENT; WITH_EVENTS is not available yet" })
    .default("NONE")
    .meta({ description: "SILENT gives every player the new level at once; NONE with the next XP" }),
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
    version: z.int().meta({ description: "0 is the default curve, which nobody saved" }),
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

const common = { tag: "Level curve", project: "caller" } as const;

export const levelCurveRoutes = [
  route({
    ...common,
    method: "get",
    path: "/level-curve",
    id: "getLevelCurve",
    summary: "Get the level curve",
    access: { scope: "config:read", roles: EVERY_ROLE },
    response: CurveBody,
    run: (app, { projectId }) => app.transact(async (work) => show(await getCurve(work, projectId))),
  }),
  route({
    ...common,
    method: "put",
    path: "/level-curve",
    id: "putLevelCurve",
    summary: "Save a level curve",
    description: "Beyond the last level XP still grows. Levels fall only where the project allows it.",
    access: { scope: "config:manage", roles: DESIGNERS },
    body: PutCurveBody,
    response: CurveBody,
    run: (app, { caller, projectId, body: { recalculate, ...curve } }) =>
      app.transact(async (work) => {
        const saved = await putCurve(work, projectId, { curve, recalculate, actor: actorOf(caller) });
        await auditDefinition(work, "level_curve.saved", { projectId, id: projectId });
        return show(saved);
      }),
  }),
  route({
    ...common,
    method: "post",
    path: "/level-curve/preview",
    id: "previewLevelCurve",
    summary: "Preview a level curve",
    description: "The table of levels, and how today's players would spread over it. Saves nothing.",
    access: { scope: "config:read", roles: BUILDERS },
    body: CurveInput,
    response: PreviewBody,
    run: (app, { projectId, body }) => app.transact((work) => previewCurve(work, projectId, body)),
  }),
];
