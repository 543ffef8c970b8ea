import { Code, Text } from "@mantine/core";

type Change = { path: string; before: unknown; after: unknown };

/** Lists where two definitions differ, by path. */
export const changesOf = (before: unknown, after: unknown, path = ""): Change[] => {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null;
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after))
    return [{ path, before, after }];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
    changesOf(before[name], after[name], path === "" ? name : `${path}.${name}`),
  );
};

const show = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

/** What is different, line by line: what was, what is. */
export const Diff = ({ before, after }: { before: unknown; after: unknown }) => {
  const changes = changesOf(before, after);
  if (changes.length === 0)
    return (
      <Text size="sm" c="dimmed">
        Nothing is different.
      </Text>
    );
  return (
    <div>
      {changes.map(({ path, before: was, after: is }) => (
        <div key={path} style={{ marginBottom: 8 }}>
          <Text size="sm" fw={600}>
            {path}
          </Text>
          <Code
            block
            className="json"
            tabIndex={0}
            style={{ borderLeft: "3px solid var(--mantine-color-red-6)" }}
          >
            {`− ${show(was)}`}
          </Code>
          <Code
            block
            className="json"
            tabIndex={0}
            style={{ borderLeft: "3px solid var(--mantine-color-teal-6)" }}
          >
            {`+ ${show(is)}`}
          </Code>
        </div>
      ))}
    </div>
  );
};
