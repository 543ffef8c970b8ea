import { Alert, Badge, Group, Stack } from "@mantine/core";
import type { ComponentProps, ReactNode } from "react";
import { type Id, operation } from "../api/client.ts";
import { unsaved, useActors, useCan, useGo, useRead } from "../api/hooks.ts";
import { own, words } from "../format.ts";
import { act, ask, create, form, type FormButtonProps, OperationForm } from "./operations.tsx";
import { Hint, Json, Named, Page, Status, type TabPages } from "./page.tsx";
import { List, type ListProps, PlainTable, Rows } from "./table.tsx";

type Props<I extends Id> = Omit<ListProps<I>, "to" | "empty" | "hint"> & {
  /** What one of them is, by which its operations are named: quest. */
  one: string;
  /** The path of their screen. */
  at?: string;
  about?: string;
  /** The form of something new. */
  form: Partial<FormButtonProps>;
  /** What they are for, told where there is none. */
  hint?: string;
  children?: ReactNode;
};

/** All definitions of a kind, and what makes a new one. */
export const Definitions = <I extends Id>(props: Props<I>) => {
  const { one, at = `/${one}s`, about, form: given, hint, children, columns, ...list } = props;
  const go = useGo();
  const to = ({ id }: { id: string }) => `${at}/${id}`;
  const make = create(operation("create", one), `New ${one}`, { ...given, onDone: (made) => go(to(made)) });
  const nameOf = ({ name, key }: { name: string; key: string }) => <Named name={name} more={key} />;
  const shown = { [words(one)]: nameOf, ...columns, Status: "status", Changed: "updatedAt" };
  const table: any = { ...list, to, columns: shown, wide: [...(list.wide ?? []), "Changed"] };
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Hint>{about}</Hint>
        {make}
      </Group>
      {children}
      <List
        filters={["search", "status"]}
        {...table}
        empty={`No ${one}s yet`.replace("ys ", "ies ")}
        hint={[hint, make]}
      />
    </Stack>
  );
};

/** The screen of all definitions of a kind, and its other parts. */
export const Catalogue = <I extends Id>({ tabs, ...all }: Props<I> & { tabs?: TabPages }) => {
  const title = `${words(all.one)}s`;
  const list = () => <Definitions {...(all as unknown as Props<I>)} />;
  return (
    <Page title={title} pages={tabs && { all: [title, list], ...tabs }}>
      {!tabs && list()}
    </Page>
  );
};

/** What the server keeps of a definition, and is no part of it. */
const KEPT = /^(id|status|version|(draft|published)(Version)?|pauseReason|memberCount|(created|updated)At)$/;

/** The definition itself. */
const definitionOf = (row: object): object =>
  Object.fromEntries(Object.entries(row).filter(([name, value]) => !KEPT.test(name) && value !== null));

type FormProps = ComponentProps<typeof OperationForm>;

/** The form of what is there; whoever may not change it, or when nobody can any more, sees it as JSON. */
export const ChangeForm = ({ isOver = false, ...given }: FormProps & { isOver?: boolean }) => {
  const can = useCan();
  return can(given.id) && !isOver ? <OperationForm {...given} /> : <Json value={given.initial} />;
};

/** What stands in the address of its operations. */
export const pathOf = (one: string, id: string): any => ({ [`${one}Id`]: id });

type OneProps = {
  /** What it is, by which its operations are named: quest. */
  one: string;
  of: any;
};

type DefinitionProps = OneProps & Pick<FormProps, "first" | "onChange" | "children">;

/** The form of a definition, or of its draft if it has one. */
export const DefinitionForm = ({ one, of, ...given }: DefinitionProps) => {
  const isDraft = of.draft !== undefined;
  const version = isDraft ? "draftVersion" : "version";
  return (
    <ChangeForm
      {...given}
      {...(isDraft && {
        submit: "Save the draft",
        done: "Draft saved: players see it once it is published",
      })}
      id={operation("update", one)}
      path={pathOf(one, of.id)}
      keep={of.id}
      isOver={of.status === "ARCHIVED"}
      initial={of.draft ?? definitionOf(of)}
      fixed={version in of ? { [version]: of[version] } : {}}
      hidden={isDraft ? [version] : ["key", "kind", version]}
      key={of[version]}
    />
  );
};

type ArchiveProps = OneProps & {
  /** The path of the screen of all. */
  at?: string;
  /** What will happen. */
  text: string;
};

/** A button that puts a definition away. */
export const Archive = ({ one, of: { id, key, name, status }, at = `/${one}s`, text }: ArchiveProps) => {
  const go = useGo();
  if (status === "ARCHIVED") return null;
  const options = { path: pathOf(one, id), of: name, name: key, text, onDone: () => go(at) };
  return ask(operation("archive", one), "Archive", options);
};

/** A definition with its draft, whose fields may stand beside its state. */
const draftedOf = (row: any): any => ({ draft: definitionOf(row), ...row });

/** How the form of something new is sent. */
export const DRAFT = { submit: "Save the draft", done: "Saved as a draft: publish it when it is right" };

const isPublished = (of: any): boolean => JSON.stringify(of.draft) === JSON.stringify(of.published);

type PageProps = {
  /** What has a draft and published versions: rule, quest or adventure. */
  one: string;
  id: string;
  /** What there is to it besides its versions. */
  pages: (of: any) => TabPages;
};

/** The screen of one definition that has a draft. */
export const DraftPage = ({ one, id, pages }: PageProps) => {
  const of = draftedOf(useRead(operation("get", one), { path: pathOf(one, id) }));
  return (
    <Page
      title={of.name}
      parent={[`${words(one)}s`, `/${one}s`]}
      actions={<Actions of={of} one={one} />}
      pages={{ ...pages(of), versions: ["Versions", () => <Versions of={of} one={one} />] }}
    >
      <Group gap="xs">
        <Status value={of.status} />
        {of.publishedVersion != null && <Badge color="gray">{`Version ${of.publishedVersion}`}</Badge>}
        {of.published && !isPublished(of) && <Badge color="yellow">Unpublished changes</Badge>}
      </Group>
      {of.pauseReason && <Alert color="orange" title={of.pauseReason} />}
    </Page>
  );
};

/** Buttons for what a draft and its published version go through. */
const Actions = ({ of, one }: OneProps) => {
  const go = useGo();
  const path = pathOf(one, of.id);
  const { status, name, key } = of;
  const isActive = status === "ACTIVE";
  const isPaused = status === "PAUSED";
  return (
    <>
      {status !== "ARCHIVED" &&
        form(operation("publish", one), "Publish…", {
          path,
          title: `Publish ${name}`,
          isMain: !isPublished(of),
          about: <ToPublish of={of} />,
          first: ["changeNote"],
          submit: "Publish",
          done: "Published",
        })}
      {isActive && act(operation("pause", one), "Pause", { path, done: "Paused" })}
      {(isPaused || status === "SHADOW") &&
        act(operation("resume", one), "Resume", { path, done: "Running again" })}
      {isActive && act(operation("shadow", one), "Shadow", { path, done: "It runs in the shadow" })}
      {(isActive || isPaused) &&
        ask(operation("end", one), "End", {
          path,
          of: name,
          text: "Nobody can go on with it. It stays visible to those who took part.",
        })}
      {form(operation("duplicate", one), "Duplicate", {
        path,
        initial: { key: `${key}-copy`, name: `${name} (copy)` },
        onDone: ({ id }) => go(`/${one}s/${id}`),
      })}
      <Archive one={one} of={of} text="It stops and leaves the lists. What players got through it stays." />
    </>
  );
};

const ToPublish = ({ of: { id, draft, published, publishedVersion } }: { of: any }) => (
  <>
    {unsaved.has(id) && <Alert color="orange" title="What you have typed and not saved stays out" />}
    {published
      ? `What changes against version ${publishedVersion}:`
      : "Players have not seen it yet: this is its first version."}
    {published && <Diff before={published} after={draft} />}
  </>
);

/** Published versions, and back to one of them. */
const Versions = ({ of, one }: OneProps) => {
  const path = pathOf(one, of.id);
  const actors = useActors();
  return (
    <Rows
      id={operation("list", `${one}Versions`) as "listRuleVersions"}
      given={{ path, query: { limit: 50 } }}
      name="Versions"
      empty="Nothing is published yet"
      dialog={[
        ({ version }) => `Version ${version} and the draft`,
        ({ definition }) => <Diff before={definition} after={of.draft} />,
      ]}
      columns={{
        Version: "version",
        Published: "publishedAt",
        By: ({ publishedBy }) => actors.get(publishedBy) ?? publishedBy,
        Note: "changeNote",
      }}
      wide={["By"]}
      actions={({ version }) =>
        version !== of.publishedVersion &&
        ask(operation("rollback", one), "Publish again", {
          path,
          body: { version } as never,
          title: `Publish version ${version} again?`,
          color: "teal",
          done: "The older version is published again",
          text: "Players see it at once, as a new version.",
        })
      }
    />
  );
};

type Change = { path: string; before: unknown; after: unknown };

/** Lists where two definitions differ, by path. */
const changesOf = (before: unknown, after: unknown, path = ""): Change[] => {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null;
  if (!isObject(before) || !isObject(after) || Array.isArray(before) !== Array.isArray(after))
    return [{ path, before, after }];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
    changesOf(own(before, name), own(after, name), path === "" ? name : `${path}.${name}`),
  );
};

const shown = (value: unknown): ReactNode => (value === undefined ? "nothing" : <Json value={value} />);

/** What is different, part by part: what was, what is. */
const Diff = ({ before, after }: { before: unknown; after: unknown }) => (
  <PlainTable
    name="Changes"
    rows={changesOf(before, after)}
    empty="Nothing is different"
    columns={{ Part: "path", Was: (change) => shown(change.before), Is: (change) => shown(change.after) }}
  />
);
