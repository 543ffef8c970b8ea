import { useQuery } from "@tanstack/react-query";

/** A JSON Schema as OpenAPI 3.0 writes it, with names in place of references. */
export type Schema = {
  $ref?: string;
  type?: string;
  format?: string;
  title?: string;
  description?: string;
  enum?: string[];
  const?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  additionalProperties?: boolean | Schema;
  default?: unknown;
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  /** The kind of definition that the text names by its key. */
  "x-ref"?: string;
  /** Some of the values that a text may have. */
  "x-suggest"?: string[];
};

export type Filter = { name: string; description?: string; required?: boolean; schema: Schema };

export type Forms = {
  bodies: Record<string, Schema>;
  queries: Record<string, Filter[]>;
  texts: Record<string, string>;
  schemas: Record<string, Schema>;
};

/** What forms and filters are drawn from; it comes when the first of them is shown. */
export const useForms = (): Forms | undefined =>
  useQuery({
    queryKey: ["forms"],
    queryFn: async () => (await import("../generated/forms.json")).default as unknown as Forms,
    staleTime: Infinity,
  }).data;

/** Follows names of schemas, and merges what is said of one value in several places. */
export const resolve = (schema: Schema, forms: Forms): Schema => {
  if (schema.$ref) {
    const { $ref, ...beside } = schema;
    return { ...resolve(forms.schemas[$ref] ?? {}, forms), ...beside };
  }
  if (schema.allOf) {
    const { allOf, ...beside } = schema;
    const parts = allOf.map((part) => resolve(part, forms));
    const merged = Object.assign({}, ...parts, beside) as Schema;
    if (!parts.some(({ properties }) => properties)) return merged;
    // Of several ways to say one thing of an object, such as who the player is, the first is drawn.
    const drawn = parts.map((part) => (part.anyOf?.[0] ? resolve(part.anyOf[0], forms) : part));
    delete merged.anyOf;
    merged.properties = Object.assign({}, ...drawn.map(({ properties }) => properties));
    return { ...merged, required: drawn.flatMap(({ required = [] }) => required) };
  }
  return schema;
};
