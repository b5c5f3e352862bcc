// Copying text. The clipboard API exists on https and localhost only; elsewhere a selected text field is copied.

export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return await navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "offscreen";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** Lets the browser save text as a file. */
export function saveFile(name: string, text: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
