import { Group, Stack } from "@mantine/core";
import type { ComponentProps, ReactNode } from "react";
import { type Id, operation } from "../api/client.ts";
import { useCan, useGo } from "../api/hooks.ts";
import { words } from "../format.ts";
import { create, type FormButtonProps, OperationForm } from "./operations.tsx";
import { Hint, Json, Named, Page, type TabPages } from "./page.tsx";
import { List, type ListProps } from "./table.tsx";

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
  const { one, at = `/${one}s`, about, form, hint, children, columns, wide = [], ...list } = props;
  const go = useGo();
  const to = ({ id }: { id: string }) => `${at}/${id}`;
  const make = create(operation("create", one), `New ${one}`, { ...form, onDone: (made) => go(to(made)) });
  const nameOf = ({ name, key }: { name: string; key: string }) => <Named name={name} more={key} />;
  const shown = { [words(one)]: nameOf, ...columns, Status: "status", Changed: "updatedAt" };
  const given: any = { ...list, to, columns: shown, wide: [...wide, "Changed"] };
  const more = (
    <>
      {hint} {make}
    </>
  );
  return (
    <Stack gap="xs">
      <Group justify="space-between">
        <Hint>{about}</Hint>
        {make}
      </Group>
      {children}
      <List {...given} empty={`No ${one}s yet`.replace("ys ", "ies ")} hint={more} />
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
const KEPT = new Set(
  "id status version draft draftVersion published publishedVersion pauseReason memberCount createdAt updatedAt".split(
    " ",
  ),
);

/** The definition itself. */
export const definitionOf = (row: object): object =>
  Object.fromEntries(Object.entries(row).filter(([name, value]) => !KEPT.has(name) && value !== null));

type FormProps = ComponentProps<typeof OperationForm> & { of: { status?: string } };

/** The form of a definition; who may not change it, or nobody any more, sees it as JSON. */
export const DefinitionForm = ({ of, initial = definitionOf(of), ...form }: FormProps) => {
  const can = useCan();
  if (!can(form.id) || of.status === "ARCHIVED") return <Json value={initial} />;
  return <OperationForm {...form} initial={initial} />;
};
