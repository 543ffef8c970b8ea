import type { z } from "zod";
import type { Json } from "../../kernel/events/events.ts";
import { DEFINITION_MAX_BYTES } from "../../kernel/limits.ts";
import { boundBytes } from "../../kernel/oversize.ts";
import type { Work } from "../../kernel/work.ts";
import type { Defined } from "../../evaluation/live.ts";

/**
 * A kind of definition: currencies, badges and so on. All kinds share one table, one set of operations and
 * one form of export and import; add one by a `kind.ts` in its feature's folder and a line in
 * `registries/definition-kinds.ts`.
 */
export type DefinitionKind<D extends Defined = Defined> = {
  /** Singular, as in audit actions: `badge`. */
  kind: string;
  /** Plural, as in paths and in exported documents: `badges`. */
  plural: string;
  /** Heading in the documentation: `Badges`. */
  tag: string;
  /** Schema of the whole definition, which fills in defaults. */
  schema: z.ZodType<D>;
  /** Required fields, from which the schema of a partial change is derived. */
  shape: z.ZodObject;
  /** Maximum number of one project's definitions that are not archived. */
  max: number;
  /**
   * Refuses what the schema cannot check: unknown names, and changes that would invalidate players' holdings.
   * `before` is the replaced definition. @throws DomainError VALIDATION_ERROR, CONFLICT
   */
  check?(work: Work, projectId: string, definition: D, before: D | undefined): Promise<void>;
  /** Follows definitions that were ended or archived, by their keys: what players wait for never comes. */
  stopped?(work: Work, projectId: string, keys: readonly string[]): Promise<void>;
  /** Whether it is written as a draft and runs once it is published: it has operations of its own. */
  hasDrafts?: true;
  /** Fields that are shown but not stored: current counts. */
  extra?: {
    shape: z.ZodRawShape;
    /** Reads the fields of several definitions, by key, in one statement. */
    read(work: Work, projectId: string, keys: readonly string[]): Promise<Map<string, Json>>;
  };
};

/** Defines a kind whose documents are limited in bytes before they are parsed. */
export const definitionKind = <D extends Defined>(kind: DefinitionKind<D>): DefinitionKind<D> => {
  boundBytes(kind.schema, DEFINITION_MAX_BYTES);
  return kind;
};
