import { z } from "zod";
import { DRAFT_STATUSES } from "../../domain/economy/definitions/drafts.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../domain/kernel/limits.ts";
import { boundBytes } from "../../domain/kernel/oversize.ts";

/** `Quest` of `quest`, as in operation ids. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A field omitted from a change keeps its value instead of becoming the default. */
const withoutDefault = (field: z.ZodType): z.ZodType =>
  field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field;

/**
 * The body of a change of a definition: any of its fields, and null for those that are to go.
 * @param counter the field that names the version on which the change is based
 */
export const changeBody = (
  shape: z.ZodObject,
  counter: { name: "version" | "draftVersion"; description: string },
) =>
  boundBytes(
    z
      .strictObject({
        ...Object.fromEntries(
          Object.entries(shape.shape).map(([name, field]) => [
            name,
            withoutDefault(field as z.ZodType).nullish(),
          ]),
        ),
        [counter.name]: z.int().min(1).optional().meta({ description: counter.description }),
      })
      .meta({ example: { name: "A better name", [counter.name]: 1 } }),
    DEFINITION_MAX_BYTES + PATCH_MORE_BYTES,
  );

/** What changes do, as the documentation says of each. */
export const CHANGE_TEXT =
  "Fields that are given replace those that are there, whole; null takes an optional one away, or " +
  "gives it its default back.";

/** A definition as it was published; stored ones may be of an earlier version of the service. */
const Stored = z.record(z.string(), z.unknown());

/**
 * What a definition with drafts is shown with besides its own fields.
 * @param times the fields by which it starts and ends
 */
export const draftFields = (times: string) => ({
  id: z.uuid(),
  status: z.enum(DRAFT_STATUSES).meta({ description: `SCHEDULED and ENDED also follow from ${times}` }),
  draftVersion: z.int().meta({ description: "Counts the edits of the draft" }),
  publishedVersion: z.int().nullable(),
  published: Stored.nullable().meta({ description: "What runs; the other fields are those of the draft" }),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});

/** A published version of a definition; a kind names it. */
export const VersionBody = z.object({
  version: z.int(),
  definition: Stored,
  publishedAt: z.iso.datetime(),
  isPublished: z.boolean().meta({ description: "The one that runs" }),
});
