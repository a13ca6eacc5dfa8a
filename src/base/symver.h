/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_SYMVER_H
#define VB_BASE_SYMVER_H

/*
 * Theory of operation
 *
 * The version script puts every plain name into the node of its default version
 * ("name@@NODE"). What a version script cannot say is that one name exists a second
 * time at another node, as a hidden version ("name@NODE") that only programs linked
 * long ago, or against another release, ask for. That, and nothing else, is said here.
 *
 *   VB_SYMVER(fn, "name", "NODE")		exports fn as the hidden version name@NODE
 *   VB_SYMVER_DEFAULT(fn, "name", "NODE")	exports fn as the default version name@@NODE
 *
 * @fn is a global function or object defined in the same file (VB_EXPORT), NODE a node of
 * the library's version script. Several lines for one @fn are fine. Three traps:
 * - @fn must not itself be called "name": the linker takes a plain name beside a hidden
 *   version of it for the same thing and exports no default.
 * - a node with "local: *" hides versions it does not list; the script has that line in a
 *   node that no hidden version uses.
 * - a default version must be listed in the script's node, a hidden one need not.
 *
 * The directive is emitted as assembly because clang has no symver attribute; gas 2.35
 * and clang 12 accept several versions of one symbol.
 */
#define VB_SYMVER(fn, name, node)	  __asm__(".symver " #fn ", " name "@" node)
#define VB_SYMVER_DEFAULT(fn, name, node) __asm__(".symver " #fn ", " name "@@" node)

/* What a version script or .symver exports must be visible and must not be dropped. */
#define VB_EXPORT __attribute__((visibility("default"), used))

#endif
