import { defineEntity, p } from "@mikro-orm/core";
import { type ProjectSettings, settingsFrom } from "../../evaluation/project-settings.ts";

export const ProjectSchema = defineEntity({
  name: "Project",
  tableName: "projects",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    name: p.text(),
    description: p.text().nullable(),
    /** An IANA name. */
    timezone: p.text(),
    settings: p.json<Partial<ProjectSettings>>(),
    /** Origins whose pages may use the project's keys and sockets; empty allows all. */
    allowedOrigins: p.array(),
    /** Incremented by every change that affects evaluation. */
    configVersion: p.bigint("number"),
    /** Set on a sandbox: the project whose test keys act on it. */
    sandboxOf: p.uuid().nullable(),
    /** How far its clock is ahead of the server's, in ms; not 0 in a sandbox alone. */
    clockAheadMs: p.bigint("number").default(0),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});

/** A game or an app of a tenant: owns keys, players and definitions. */
export class Project extends ProjectSchema.class {}

ProjectSchema.setClass(Project);

export const settingsOf = (project: Project): ProjectSettings => settingsFrom(project.settings);
