import { defineEntity, p } from "@mikro-orm/core";
import type { Pause, Phase } from "../../evaluation/live.ts";
import type { Json } from "../../kernel/events/events.ts";

/** A project's economy definitions of every kind (registries/definition-kinds.ts). */
export const DefinitionSchema = defineEntity({
  name: "Definition",
  tableName: "definitions",
  properties: {
    id: p.uuid().primary(),
    projectId: p.uuid(),
    kind: p.text(),
    key: p.text(),
    name: p.text(),
    definition: p.json<Json>(),
    /** DRAFT: of a kind with drafts, and never published. */
    status: p.text().$type<"ACTIVE" | "ARCHIVED" | "DRAFT">(),
    version: p.integer(),
    /** Of kinds with drafts: edits that are not published yet. */
    draft: p.json<Json>().nullable(),
    draftVersion: p.integer().default(1),
    phase: p.text().$type<Phase>().nullable(),
    endedAt: p.datetime(3).nullable(),
    /** Of kinds with drafts: when it did not run, oldest first. */
    pauses: p.json<Pause[]>().nullable(),
    createdBy: p.text(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
export class Definition extends DefinitionSchema.class {}
DefinitionSchema.setClass(Definition);

/** Converts a definition to its API form: its fields, plus the columns common to all definitions. */
export const showDefinition = ({
  id,
  definition,
  status,
  version,
  createdAt,
  updatedAt,
}: Definition): Json => ({
  ...definition,
  id,
  status,
  version,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});
