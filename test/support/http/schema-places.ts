import type { z } from "zod";

type Def = {
  type: string;
  checks?: readonly { _zod: { def: { check: string } } }[];
  innerType?: z.ZodType;
  in?: z.ZodType;
  out?: z.ZodType;
  shape?: Record<string, z.ZodType>;
  element?: z.ZodType;
  valueType?: z.ZodType;
  options?: readonly z.ZodType[];
  values?: readonly unknown[];
  entries?: Record<string, unknown>;
};
type Bare = { _zod: { def: Def } };

/** The schema under optional, nullable, lazy, preprocessed and the like. */
export const bareSchema = (schema: z.ZodType): Bare => {
  const { type, innerType, in: from, out } = schema._zod.def as unknown as Def;
  if (innerType) return bareSchema(innerType);
  // Its getter would make another schema each time.
  if (type === "lazy") return bareSchema((schema as z.ZodLazy<z.ZodType>)._zod.innerType);
  if (type === "pipe") return bareSchema(from!._zod.def.type === "transform" ? out! : from!);
  return schema;
};

/** A place in a value that a schema describes; `wrap` makes a value that has something at this place. */
export type Place = { name: string; schema: z.ZodType; wrap: (value: unknown) => unknown };

const DEPTH_MAX = 9;

/** Something near to what the schema wants, so that what stands beside it is looked at. */
const sampleOf = (schema: z.ZodType, depth = 0): unknown => {
  const { type, shape, values, entries, options } = bareSchema(schema)._zod.def;
  if (depth > DEPTH_MAX) return null;
  if (type === "object") {
    const required = Object.entries(shape!).filter(([, inner]) => inner._zod.optin !== "optional");
    return Object.fromEntries(required.map(([name, inner]) => [name, sampleOf(inner, depth + 1)]));
  }
  if (type === "literal") return values![0];
  if (type === "enum") return Object.values(entries!)[0];
  if (type === "union") return sampleOf(options![0]!, depth + 1);
  const plain: Record<string, unknown> = { string: "aa", number: 1, boolean: true, record: {}, array: [] };
  return plain[type] ?? null;
};

/** Every place of a schema, the outermost first; one that comes again inside of itself is told once. */
export const placesOf = (root: z.ZodType): Place[] => {
  const places: Place[] = [];
  const seen = new Set<unknown>();
  const visit = (schema: z.ZodType, name: string, wrap: Place["wrap"]): void => {
    const bare = bareSchema(schema);
    if (seen.has(bare)) return;
    seen.add(bare);
    places.push({ name, schema, wrap });
    const { shape, element, valueType, options } = bare._zod.def;
    if (shape) {
      const beside = sampleOf(schema) as object;
      for (const [key, inner] of Object.entries(shape))
        visit(inner, `${name}.${key}`, (value) => wrap({ ...beside, [key]: value }));
    }
    if (element) visit(element, `${name}[]`, (value) => wrap([value]));
    if (valueType) visit(valueType, `${name}{}`, (value) => wrap({ a: value }));
    options?.forEach((option, i) => visit(option, `${name}|${i}`, wrap));
  };
  visit(root, "", (value) => value);
  return places;
};
